# SPDX-License-Identifier: Apache-2.0
# For doxygen: turns the comments of a header, which are plain text after //, into
# documentation. The comment at the top of a header describes the file. Indented
# lines are an example, lines that begin with | are a table; of all else, what
# doxygen would take for a command is escaped.
function escape(text) {
  gsub(/\\/, "\\\\\\\\", text)
  gsub(/[@<>#&%$]/, "\\\\&", text)
  gsub(/::/, "\\::", text)
  return text
}
function close_block() {
  if (block != "") print indent "/// @end" block
  block = ""
}
function open_block(name) {
  if (block == name) return
  close_block()
  block = name
  print indent "/// @" name
}
# Prints a line of a comment.
function show(text) {
  if (text ~ /^\|/) {
    open_block("verbatim")
    in_item = 0
  } else if (text ~ /^  / && !in_item) {
    open_block("code")
  } else if (text != "") {
    close_block()
    in_item = text ~ /^(-|[0-9]+\.) / || (in_item && text ~ /^ /)
  } else {
    in_item = 0
  }
  print indent "/// " (block == "" ? escape(text) : text)
}
BEGIN { in_head = 1 }
/^ *\/\/( |$)/ && !/SPDX-License-Identifier/ && !/IWYU pragma/ && !/NOLINT/ {
  match($0, /^ */)
  indent = substr($0, 1, RLENGTH)
  if (in_head && !opened++) print "/// @file"
  text = substr($0, RLENGTH + 3)
  sub(/^ /, "", text)
  show(text)
  next
}
/^ *\/\// { next }
{
  if (block != "") close_block()
  in_item = 0
  in_head = 0
}
# After a declaration on its line.
/[;,{] +\/\/ / && !/"[^"]*\/\// {
  match($0, / +\/\/ /)
  print substr($0, 1, RSTART - 1) "  ///< " escape(substr($0, RSTART + RLENGTH))
  next
}
{ print }
