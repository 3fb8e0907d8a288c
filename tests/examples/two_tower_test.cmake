# SPDX-License-Identifier: Apache-2.0
# The example two_tower: a run that was killed or preempted and resumed ends as
# one that was not, on any number of ranks, and its checkpoints are few lines.
file(REMOVE_RECURSE ${CKPTDB_WORK})
file(MAKE_DIRECTORY ${CKPTDB_WORK})

# Sets `digest` to what a run printed, empty when it did not come to its end.
function(train expected)
  execute_process(
    COMMAND ${CKPTDB_TWO_TOWER} ${ARGN}
    WORKING_DIRECTORY ${CKPTDB_WORK}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE errors)
  if(expected STREQUAL "succeeds" AND NOT result EQUAL 0)
    message(FATAL_ERROR "two_tower ${ARGN}: ${result}\n${output}${errors}")
  endif()
  if(expected STREQUAL "dies" AND result EQUAL 0)
    message(FATAL_ERROR "two_tower ${ARGN} did not die:\n${output}")
  endif()
  string(REGEX MATCH "digest [0-9a-f]+" digest "${output}")
  set(digest "${digest}" PARENT_SCOPE)
endfunction()

function(expect_same what expected actual)
  if(expected STREQUAL "" OR NOT expected STREQUAL actual)
    message(FATAL_ERROR "${what}: \"${actual}\", not \"${expected}\"")
  endif()
endfunction()

set(sigkill 9)
set(sigterm 15)
train(succeeds calm 120 4)
set(calm "${digest}")
foreach(ranks IN ITEMS 1 3)
  train(succeeds calm${ranks} 120 ${ranks})
  expect_same("${ranks} ranks" "${calm}" "${digest}")
  train(dies killed${ranks} 120 ${ranks} ${sigkill} 71)
  train(succeeds killed${ranks} 120 ${ranks})
  expect_same("resumed on ${ranks} ranks" "${calm}" "${digest}")
  # It ends with a save, of a step between two that the schedule saves.
  train(succeeds preempted${ranks} 120 ${ranks} ${sigterm} 50)
  set(preempted "${digest}")
  train(succeeds preempted${ranks} 51 ${ranks})
  expect_same("saved on ${ranks} ranks" "${preempted}" "${digest}")
  train(succeeds preempted${ranks} 120 ${ranks})
  expect_same("preempted on ${ranks} ranks" "${calm}" "${digest}")
endforeach()
# Another number of ranks goes on from the same rows.
train(dies killed 120 3 ${sigkill} 71)
train(succeeds killed 120 2)
expect_same("3 ranks on 2" "${calm}" "${digest}")

# Arguments of a careless user make no store.
function(expect_refused what)
  execute_process(
    COMMAND ${CKPTDB_TWO_TOWER} ${ARGN}
    WORKING_DIRECTORY ${CKPTDB_WORK}
    RESULT_VARIABLE result
    ERROR_VARIABLE errors)
  if(result EQUAL 0 OR NOT errors MATCHES "${what}" OR
     EXISTS ${CKPTDB_WORK}/refused)
    message(FATAL_ERROR "two_tower ${ARGN}: ${result}\n${errors}")
  endif()
endfunction()
expect_refused("usage: two_tower STORE STEPS RANKS")
expect_refused("usage: two_tower STORE STEPS RANKS" --help)
expect_refused("number of ranks is -7; it must be from 1 to 4096" refused 1 -7)
expect_refused("number of ranks is 0; it must be from 1 to 4096" refused 1 many)

# The lines between "[checkpoints]" and "[end]", and all of them.
execute_process(
  COMMAND awk "/\\[checkpoints\\]/ {on = 1; next} /\\[end\\]/ {on = 0}
               on {++count} END {print count, NR}" ${CKPTDB_EXAMPLE}
  OUTPUT_VARIABLE counts
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(counts)
list(GET counts 0 checkpoint_lines)
list(GET counts 1 all_lines)
if(checkpoint_lines GREATER 40 OR NOT all_lines LESS 200)
  message(FATAL_ERROR "two_tower.cc has ${all_lines} lines, ${checkpoint_lines} "
                      "of them of checkpoints; the limits are 199 and 40")
endif()
