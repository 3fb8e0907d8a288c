// SPDX-License-Identifier: Apache-2.0
// Checks of the values that options take, with errors that name the limit.
#ifndef CKPTDB_TOOLS_VALUE_CHECKS_H_
#define CKPTDB_TOOLS_VALUE_CHECKS_H_

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"

namespace ckptdb::tool {

CLI::Validator AtLeast(double least);
CLI::Validator MoreThanZero();

// Adds to each option of a number a check that it is one, and fits. By itself,
// CLI11 takes "nan", and the nearest integer instead of one that does not fit.
void CheckNumbers(CLI::App* app);

// Rejects empty values of all options and arguments, including those of groups:
// a script's unset variable must not select all rows.
void RefuseEmptyValues(CLI::App* app);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_VALUE_CHECKS_H_
