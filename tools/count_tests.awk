# Counts the test cases in a log of CTest: for a program of GoogleTest by its own
# counts, as it has many cases in one test of CTest, and one for any other test.
# Names those that failed.
#
#   awk -f tools/count_tests.awk build/release/Testing/Temporary/LastTest.log
#
# The last line printed is "N passed, N failed". A skipped case is in neither. If
# a program crashes or runs out of time, the case that it was in has failed, and
# those after it, which did not run, are in neither.

# Counts of the test of CTest that is being read.
function begin_test(name) {
  test = name
  cases = done = ok = bad = left_out = 0
  complete = listing = 0
  current = ""
  delete failures
}

function fail(name) { names[++failed] = name }

function end_test(test_passed,    i, name) {
  name = test
  passed += ok
  skipped += left_out
  for (i = 1; i <= bad; ++i) fail(failures[i])
  test = ""
  if (current != "" && !complete) {
    fail(current ", which did not end; " cases - done - 1 " more did not run")
  } else if (cases < 0) {
    fail(name ", whose program is missing")
  } else if (cases == 0) {
    if (test_passed) ++passed
    else fail(name)
  } else if (!test_passed && bad == 0) {
    fail(name ", although its cases passed")
  }
}

/^[0-9]+\/[0-9]+ Test: / {
  if (test != "") end_test(0)
  begin_test($3)
}
# CTest has found no such program, and calls that passed.
/^Command: ""$/ { cases = -1 }
/^\[==========\] Running [0-9]+ tests? from / { cases = $3 }
/^\[ RUN      \] / { current = $4 }

# Lines of single cases, which count unless the program's own counts follow.
/\[       OK \] [^ ]+ .*ms\)$/ { ++ok; ++done; current = "" }
/\[  SKIPPED \] [^ ]+ .*ms\)$/ { ++left_out; ++done; current = "" }
/\[  FAILED  \] [^ ]+ .*ms\)$/ {
  ++done
  current = ""
  sub(/.*\[  FAILED  \] /, "")
  sub(/,? .*/, "")
  failures[++bad] = $0
}

/^\[==========\] [0-9]+ tests? from .* ran\. / {
  complete = 1
  ok = bad = left_out = 0
}
/^\[  PASSED  \] [0-9]+ tests?\.$/ { ok = $4 }
/^\[  SKIPPED \] [0-9]+ tests?, listed below:$/ { left_out = $4 }
/^\[  FAILED  \] [0-9]+ tests?, listed below:$/ { listing = 1; next }
/^\[  FAILED  \] / && listing { sub(/,$/, "", $4); failures[++bad] = $4 }

/^Test (Passed|Failed)\.$/ { end_test($2 == "Passed.") }
# What follows is why a test without an error is skipped, or has failed.
/^Test Pass Reason:$/ {
  if (cases == 0) {
    ++skipped
    test = ""
  } else {
    end_test(1)
  }
}
/^Test Fail Reason:$/ { end_test(0) }

END {
  if (test != "") end_test(0)
  for (i = 1; i <= failed; ++i) print "failed: " names[i]
  if (skipped > 0) print skipped " skipped"
  print passed + 0 " passed, " failed + 0 " failed"
}
