# SPDX-License-Identifier: Apache-2.0
# tools/count_tests.awk counts the cases of each kind of end that a test has.

# add_log(name end output...): a test of a log of CTest. `end` is the line that
# CTest ends it with.
set(log "")
set(number 0)
function(add_log name end)
  math(EXPR number "${number} + 1")
  string(JOIN "\n" output ${ARGN})
  string(APPEND log "${number}/9 Testing: ${name}\n${number}/9 Test: ${name}\n"
         "Command: \"/bin/a\"\nOutput:\n----\n${output}\n<end of output>\n"
         "Test time =   0.01 sec\n----\n${end}\n\n")
  set(log "${log}" PARENT_SCOPE)
  set(number ${number} PARENT_SCOPE)
endfunction()

add_log(both_pass "Test Passed."
        "[==========] Running 2 tests from 1 test suite."
        "[ RUN      ] Both.A" "[       OK ] Both.A (0 ms)"
        # A case that prints half a line.
        "[ RUN      ] Both.B" "half[       OK ] Both.B (0 ms)"
        "[==========] 2 tests from 1 test suite ran. (0 ms total)"
        "[  PASSED  ] 2 tests.")
add_log(one_is_skipped "Test Passed."
        "[==========] Running 2 tests from 1 test suite."
        "[ RUN      ] Some.A" "[  SKIPPED ] Some.A (0 ms)"
        "[ RUN      ] Some.B" "[       OK ] Some.B (0 ms)"
        "[==========] 2 tests from 1 test suite ran. (0 ms total)"
        "[  PASSED  ] 1 test."
        "[  SKIPPED ] 1 test, listed below:" "[  SKIPPED ] Some.A")
add_log(all_are_skipped "Test Pass Reason:\nSkip regular expression found"
        "[==========] Running 1 test from 1 test suite."
        "[ RUN      ] All.A" "[  SKIPPED ] All.A (0 ms)"
        "[==========] 1 test from 1 test suite ran. (0 ms total)"
        "[  PASSED  ] 0 tests."
        "[  SKIPPED ] 1 test, listed below:" "[  SKIPPED ] All.A")
add_log(one_fails "Test Failed."
        "[==========] Running 2 tests from 1 test suite."
        "[ RUN      ] Of/Two.A/0" "[       OK ] Of/Two.A/0 (0 ms)"
        "[ RUN      ] Of/Two.A/1" "a_test.cc:5: Failure"
        "[  FAILED  ] Of/Two.A/1, where GetParam() = 2 (0 ms)"
        "[==========] 2 tests from 1 test suite ran. (0 ms total)"
        "[  PASSED  ] 1 test." "[  FAILED  ] 1 test, listed below:"
        "[  FAILED  ] Of/Two.A/1, where GetParam() = 2" " 1 FAILED TEST")
add_log(the_second_crashes "Test Failed."
        "[==========] Running 4 tests from 1 test suite."
        "[ RUN      ] Crash.A" "[       OK ] Crash.A (0 ms)"
        "[ RUN      ] Crash.B" "a_test: free(): invalid pointer")
add_log(one_exits_with_0 "Test Passed."
        "[==========] Running 1 test from 1 test suite." "[ RUN      ] Exit.A")
add_log(leaks "Test Failed."
        "[==========] Running 1 test from 1 test suite."
        "[ RUN      ] Leak.A" "[       OK ] Leak.A (0 ms)"
        "[==========] 1 test from 1 test suite ran. (0 ms total)"
        "[  PASSED  ] 1 test." "LeakSanitizer: detected memory leaks")
add_log(script_passes "Test Passed." "done")
add_log(script_fails "Test Failed." "not done")

set(file ${CMAKE_CURRENT_BINARY_DIR}/count_tests.log)
file(WRITE ${file} "${log}")
execute_process(
  COMMAND awk -f ${CKPTDB_SOURCE}/tools/count_tests.awk ${file}
  OUTPUT_VARIABLE counted ERROR_VARIABLE counted)
file(REMOVE ${file})
string(CONCAT expected
       "failed: Of/Two.A/1\n"
       "failed: Crash.B, which did not end; 2 more did not run\n"
       "failed: Exit.A, which did not end; 0 more did not run\n"
       "failed: leaks, although its cases passed\n"
       "failed: script_fails\n" "2 skipped\n" "7 passed, 5 failed\n")
if(NOT counted STREQUAL expected)
  message(FATAL_ERROR "expected:\n${expected}counted:\n${counted}")
endif()
