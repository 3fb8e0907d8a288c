# SPDX-License-Identifier: Apache-2.0
# Counts the test cases in a CTest log. A GoogleTest program contains many cases
# in one CTest test, so its own counts are used, as are those of `pytest -v -ra`;
# any other test counts as one. Names the failed cases, and those that pytest
# skipped, with its reasons.
#
#   awk -f tools/count_tests.awk build/release/Testing/Temporary/LastTest.log
#
# The last line printed is "N passed, N failed". Skipped cases are in neither
# number. If a program crashes or times out, the case that was running has
# failed, and the cases after it did not run and are in neither number.

# The counts of the CTest test being read.
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
# CTest did not find the program, and reports the test as passed.
/^Command: ""$/ { cases = -1 }
/^\[==========\] Running [0-9]+ tests? from / { cases = $3 }
/^\[ RUN      \] / { current = $4 }

# Lines of single cases, used only if the program prints no summary.
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

# The same of pytest. A case whose set-up failed is an error.
/^=+ test session starts =+$/ { cases = 1 }
/^collect(ed|ing .* collected) [0-9]+ items?/ && cases {
  sub(/.*collected /, "")
  if ($1 > 0) cases = $1
}
/^[^ ]+\.py::/ { current = $1 }
/^[^ ]+\.py::.* (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)( .*)?$/ {
  ++done
  if ($2 == "PASSED") ++ok
  current = ""
}
/^(FAILED|ERROR) [^ ]+\.py/ { failures[++bad] = $2 }
/^SKIPPED \[[0-9]+\] / { print "skipped: " substr($0, 9) }
/^=+ .* in [0-9.]+s( \(.*\))? =+$/ && cases {
  complete = 1
  ok = left_out = 0
  for (i = 3; i <= NF; ++i) {
    if ($i ~ /^(passed|xfailed|xpassed),?$/) ok += $(i - 1)
    if ($i ~ /^skipped,?$/) left_out += $(i - 1)
  }
}

/^Test (Passed|Failed)\.$/ { end_test($2 == "Passed.") }
# The reason why a test without an error was skipped or failed follows.
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
