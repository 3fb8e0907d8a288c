// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_xml.h"

#include <cstdint>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pugixml.hpp"
#include "schema/status.h"

namespace ckptdb::internal::s3 {

namespace {

// Returns the root of the document, which must be called `name`.
absl::StatusOr<pugi::xml_node> Root(absl::string_view text, const char* name,
                                    pugi::xml_document* document) {
  const pugi::xml_parse_result parsed =
      document->load_buffer(text.data(), text.size());
  const pugi::xml_node root = document->child(name);
  if (parsed && root) return root;
  return absl::DataLossError(absl::StrCat(
      "the answer is not the XML document <", name,
      ">: ", parsed ? "its root is another one" : parsed.description()));
}

absl::StatusOr<absl::Time> TimeOf(const pugi::xml_node& node,
                                  const char* name) {
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, node.child_value(name), &time,
                      &error)) {
    return time;
  }
  return absl::DataLossError(absl::StrCat("<", name, "> is \"",
                                          node.child_value(name),
                                          "\", not a time of RFC 3339"));
}

bool IsTrue(const pugi::xml_node& node, const char* name) {
  return absl::EqualsIgnoreCase(node.child_value(name), "true");
}

}  // namespace

ServiceError ParseError(absl::string_view text) {
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size());
  pugi::xml_node error = document.child("Error");
  // STS puts the error one level deeper.
  if (!error) error = document.child("ErrorResponse").child("Error");
  return {.code = error.child_value("Code"),
          .message = error.child_value("Message"),
          .region = error.child_value("Region")};
}

absl::StatusOr<ObjectPage> ParseObjectPage(absl::string_view text) {
  pugi::xml_document document;
  CKPTDB_ASSIGN_OR_RETURN(const pugi::xml_node root,
                          Root(text, "ListBucketResult", &document));
  ObjectPage page = {.objects = {}, .truncated = IsTrue(root, "IsTruncated")};
  for (const pugi::xml_node& each : root.children("Contents")) {
    ObjectInfo object;
    object.key = each.child_value("Key");
    CKPTDB_ASSIGN_OR_RETURN(object.modified, TimeOf(each, "LastModified"));
    if (object.key.empty() ||
        !absl::SimpleAtoi(each.child_value("Size"), &object.size)) {
      return absl::DataLossError(absl::StrCat("the list has a key \"",
                                              object.key, "\" with size \"",
                                              each.child_value("Size"), "\""));
    }
    page.objects.push_back(std::move(object));
  }
  return page;
}

absl::StatusOr<UploadPage> ParseUploadPage(absl::string_view text) {
  pugi::xml_document document;
  CKPTDB_ASSIGN_OR_RETURN(const pugi::xml_node root,
                          Root(text, "ListMultipartUploadsResult", &document));
  UploadPage page = {.uploads = {},
                     .truncated = IsTrue(root, "IsTruncated"),
                     .next_key = root.child_value("NextKeyMarker"),
                     .next_id = root.child_value("NextUploadIdMarker")};
  for (const pugi::xml_node& each : root.children("Upload")) {
    UploadInfo upload = {.key = each.child_value("Key"),
                         .id = each.child_value("UploadId")};
    CKPTDB_ASSIGN_OR_RETURN(upload.initiated, TimeOf(each, "Initiated"));
    page.uploads.push_back(std::move(upload));
  }
  return page;
}

absl::StatusOr<std::string> ParseUploadId(absl::string_view text) {
  pugi::xml_document document;
  CKPTDB_ASSIGN_OR_RETURN(
      const pugi::xml_node root,
      Root(text, "InitiateMultipartUploadResult", &document));
  const std::string id = root.child_value("UploadId");
  if (id.empty()) return absl::DataLossError("the answer has no <UploadId>");
  return id;
}

std::string CompletionOf(absl::Span<const std::string> etags) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("CompleteMultipartUpload");
  for (size_t i = 0; i < etags.size(); ++i) {
    pugi::xml_node part = root.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned>(i + 1));
    part.append_child("ETag").text().set(etags[i].c_str());
  }
  std::ostringstream text;
  document.save(text, "", pugi::format_raw | pugi::format_no_declaration);
  return text.str();
}

absl::StatusOr<Credentials> ParseWebIdentity(absl::string_view text) {
  pugi::xml_document document;
  CKPTDB_ASSIGN_OR_RETURN(
      const pugi::xml_node root,
      Root(text, "AssumeRoleWithWebIdentityResponse", &document));
  const pugi::xml_node node =
      root.child("AssumeRoleWithWebIdentityResult").child("Credentials");
  Credentials credentials = {
      .access_key_id = node.child_value("AccessKeyId"),
      .secret_access_key = node.child_value("SecretAccessKey"),
      .session_token = node.child_value("SessionToken"),
      .source = "the web identity"};
  CKPTDB_ASSIGN_OR_RETURN(credentials.expires, TimeOf(node, "Expiration"));
  if (credentials.access_key_id.empty() ||
      credentials.secret_access_key.empty()) {
    return absl::DataLossError("the answer of STS has no credentials");
  }
  return credentials;
}

}  // namespace ckptdb::internal::s3
