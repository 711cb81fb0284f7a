# Packaging without compiling: -DORRERY_PREBUILT=FOLDER names a build folder of this checkout, whose
# programs and extension module go into the wheel. The tests use this, because the objects are the
# same; ./dev fresh also compiles the wheel as `pip install` does.
set(programs orrery orrery-sim orrery-live)
file(GLOB module ${ORRERY_PREBUILT}/python/orrery/_core*.so)
list(TRANSFORM programs PREPEND ${ORRERY_PREBUILT}/bin/ OUTPUT_VARIABLE prebuilt)
set(plugins orrery_nccl_tuner orrery_nccl_profiler)
foreach(plugin ${plugins})
  list(APPEND prebuilt ${ORRERY_PREBUILT}/lib/lib${plugin}.so)
endforeach()
foreach(file ${prebuilt})
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "ORRERY_PREBUILT: expected ${file}; run ./dev build first")
  endif()
endforeach()
if(NOT module)
  message(FATAL_ERROR
    "ORRERY_PREBUILT: expected ${ORRERY_PREBUILT}/python/orrery/_core*.so; run ./dev build first")
endif()
foreach(target _core ${programs} ${plugins})  # the names that pyproject.toml builds
  add_custom_target(${target})
endforeach()
install(PROGRAMS ${prebuilt} DESTINATION orrery/bin COMPONENT python)
install(PROGRAMS ${module} DESTINATION orrery COMPONENT python)
foreach(folder man bash-completion fish)
  install(DIRECTORY ${ORRERY_PREBUILT}/share/${folder} DESTINATION ${SKBUILD_DATA_DIR}/share
    COMPONENT python)
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/native.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/examples.cmake)
