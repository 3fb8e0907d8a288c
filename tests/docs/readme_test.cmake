# SPDX-License-Identifier: Apache-2.0
# Checks README.md of CKPTDB_SOURCE: its blocks of output are what the program
# CKPTDB_QUICKSTART prints, run after run, on a store below CKPTDB_WORK; its links
# lead to files that exist. samples_test.cc compares the example.
cmake_minimum_required(VERSION 3.25)

# Sets `out` to what stands between the first `begin` and the next `end`.
function(between text begin end out)
  string(FIND "${text}" "${begin}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "no \"${begin}\" to begin with")
  endif()
  string(LENGTH "${begin}" length)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${text}" ${at} -1 rest)
  string(FIND "${rest}" "${end}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "no \"${end}\" after \"${begin}\"")
  endif()
  string(SUBSTRING "${rest}" 0 ${at} rest)
  set(${out} "${rest}" PARENT_SCOPE)
endfunction()

function(expect_same what is expected)
  if(NOT "${is}" STREQUAL "${expected}")
    message(SEND_ERROR "${what} of README.md is\n${is}\nand not\n${expected}")
  endif()
endfunction()

file(READ ${CKPTDB_SOURCE}/README.md readme)

file(REMOVE_RECURSE ${CKPTDB_WORK})
file(MAKE_DIRECTORY ${CKPTDB_WORK})
foreach(run "it prints" "and the second time")
  between("${readme}" "${run}\n\n```text\n" "```\n" shown)
  execute_process(COMMAND ${CKPTDB_QUICKSTART} ${CKPTDB_WORK}/store
                  OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "${CKPTDB_WORK}/store" "/data/users" printed "${printed}")
  expect_same("the output (\"${run}\")" "${shown}" "${printed}")
endforeach()

# Without the bracket, which would hide what separates a list.
string(REPLACE "](" "@(" marked "${readme}")
string(REGEX MATCHALL "@\\([^)]*\\)" links "${marked}")
list(LENGTH links count)
if(count LESS 10)
  message(SEND_ERROR "${count} links found in README.md, fewer than 10")
endif()
foreach(link IN LISTS links)
  string(REGEX REPLACE "^..([^#)]*).*$" "\\1" path "${link}")
  if(NOT EXISTS "${CKPTDB_SOURCE}/${path}")
    message(SEND_ERROR "README.md links to \"${path}\", which does not exist")
  endif()
endforeach()
