# Manual pages and completions, written by the program after each build into share/ of the build
# folder: `cmake --install build --component command` installs them beside the programs, a wheel in
# the environment's share/.
set(share ${CMAKE_BINARY_DIR}/share)
set(bash_completions ${share}/bash-completion/completions)
set(fish_completions ${share}/fish/vendor_completions.d)
add_custom_command(TARGET orrery POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${bash_completions} ${fish_completions}
  COMMAND orrery help --man ${share}/man/man1 > ${share}/man.log
  COMMAND orrery completion bash > ${bash_completions}/orrery
  COMMAND orrery completion fish > ${fish_completions}/orrery.fish VERBATIM)
install(DIRECTORY ${share}/man ${share}/bash-completion ${share}/fish DESTINATION share
  COMPONENT command)
# A program finds the others beside itself, and examples in ../examples, as in a wheel.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/ DESTINATION lib/orrery/examples
  COMPONENT command FILES_MATCHING PATTERN *.yaml PATTERN *.csv PATTERN *.et
  PATTERN chakra-gpt64.yaml EXCLUDE)  # reads a trace outside the repository
foreach(program orrery orrery-sim orrery-live)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION lib/orrery/bin COMPONENT command)
  endif()
endforeach()
install(TARGETS orrery_nccl_tuner orrery_nccl_profiler LIBRARY DESTINATION lib/orrery/bin
  COMPONENT command)
file(CREATE_LINK ../lib/orrery/bin/orrery ${CMAKE_CURRENT_BINARY_DIR}/orrery SYMBOLIC)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/orrery DESTINATION bin COMPONENT command)
if(SKBUILD)
  install(DIRECTORY ${share}/man ${share}/bash-completion ${share}/fish
    DESTINATION ${SKBUILD_DATA_DIR}/share COMPONENT python)
endif()
