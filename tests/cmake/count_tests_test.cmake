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
set(session "=== test session starts ===" "collecting ... collected 3 items")
add_log(pytest_passes "Test Passed." ${session}
        "a_test.py::test_a PASSED [ 33%]" "a_test.py::test_b[1] SKIPPED [ 66%]"
        "a_test.py::test_c XFAIL [100%]" "=== short test summary info ==="
        "SKIPPED [1] a_test.py:7: no torch"
        "=== 1 passed, 1 skipped, 1 xfailed, 2 warnings in 3.4s (0:00:03) ===")
add_log(pytest_skips_a_file "Test Pass Reason:\nSkip return code=5"
        "=== test session starts ===" "collecting ... collected 0 items / 1 skipped"
        "=== short test summary info ===" "SKIPPED [1] b_test.py:9: no jax"
        "=== 1 skipped in 1.60s ===")
add_log(pytest_fails "Test Failed." ${session}
        "a_test.py::test_a FAILED [ 33%]" "a_test.py::test_b ERROR [ 66%]"
        "a_test.py::test_c PASSED [100%]" "=== short test summary info ==="
        "FAILED a_test.py::test_a - assert 1 == 2" "ERROR a_test.py::test_b"
        "=== 1 failed, 1 passed, 1 error in 0.4s ===")
add_log(pytest_crashes "Test Failed." ${session}
        "a_test.py::test_a PASSED [ 33%]"
        "a_test.py::test_b Fatal Python error: Segmentation fault")
add_log(pytest_does_not_collect "Test Failed." "=== test session starts ==="
        "collecting ... collected 0 items / 1 error" "ERROR a_test.py"
        "=== 1 error in 0.04s ===")
add_log(script_passes "Test Passed." "done")
add_log(script_fails "Test Failed." "not done")

set(file ${CMAKE_CURRENT_BINARY_DIR}/count_tests.log)
file(WRITE ${file} "${log}")
execute_process(
  COMMAND awk -f ${CKPTDB_SOURCE}/tools/count_tests.awk ${file}
  OUTPUT_VARIABLE counted ERROR_VARIABLE counted)
file(REMOVE ${file})
string(CONCAT expected
       "skipped: [1] a_test.py:7: no torch\n"
       "skipped: [1] b_test.py:9: no jax\n"
       "failed: Of/Two.A/1\n"
       "failed: Crash.B, which did not end; 2 more did not run\n"
       "failed: Exit.A, which did not end; 0 more did not run\n"
       "failed: leaks, although its cases passed\n"
       "failed: a_test.py::test_a\n"
       "failed: a_test.py::test_b\n"
       "failed: a_test.py::test_b, which did not end; 1 more did not run\n"
       "failed: a_test.py\n"
       "failed: script_fails\n" "4 skipped\n" "11 passed, 9 failed\n")
if(NOT counted STREQUAL expected)
  message(FATAL_ERROR "expected:\n${expected}counted:\n${counted}")
endif()
