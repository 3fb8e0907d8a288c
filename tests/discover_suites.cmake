# SPDX-License-Identifier: Apache-2.0
# Writes the tests of a program of GoogleTest for CTest, one for each of its
# suites, whose cases share a process: to start one takes longer than most cases
# do. Run after the program is built, with
#   -D NAME=...       as in ckptdb_add_tests
#   -D PROGRAM=...    its file
#   -D PROPERTIES=... of each test, names and values
#   -D LONG=...       a regular expression of suites that begin first
#   -D OUTPUT=...     the file to write, which CTest includes
execute_process(
  COMMAND ${PROGRAM} --gtest_list_tests
  OUTPUT_VARIABLE listed
  RESULT_VARIABLE result
  TIMEOUT 60)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${result}\n${listed}")
endif()

# A suite is at the beginning of its line, and ends with a dot; a comment may
# follow. Its cases are indented.
string(REGEX MATCHALL "\n[^ \n]+[.](  # [^\n]*)?\n  " suites "\n${listed}")
set(tests "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n([^ ]+)[.].*" "\\1" suite "${suite}")
  set(test "[=[${NAME}.${suite}]=]")
  string(APPEND tests
         "add_test(${test} [=[${PROGRAM}]=] [=[--gtest_filter=${suite}.*]=])\n"
         "set_tests_properties(${test} PROPERTIES ${PROPERTIES})\n")
  if(suite MATCHES "(^|/)(${LONG})$")
    string(APPEND tests "set_tests_properties(${test} PROPERTIES COST 2)\n")
  endif()
endforeach()
if(tests STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} lists no suite:\n${listed}")
endif()
file(WRITE ${OUTPUT} "${tests}")
