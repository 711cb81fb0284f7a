# Extension modules for further interpreters, built by ./dev wheel only. ORRERY_MODULES lists them
# as TAG|SUFFIX|FOLDER|FOLDER..., for example
# cp313|.cpython-313-x86_64-linux-gnu.so|/usr/include/python3.13, with the folders of the headers
# of the interpreter and of a pybind11 that knows it. The target _core_TAG writes
# python/modules/TAG/_coreSUFFIX in the build folder.
set(ORRERY_MODULES "" CACHE STRING "further interpreters that ./dev wheel builds a module for")
foreach(module ${ORRERY_MODULES})
  string(REPLACE "|" ";" folders "${module}")
  list(POP_FRONT folders tag suffix)
  add_library(_core_${tag} MODULE EXCLUDE_FROM_ALL ${module_sources})
  target_include_directories(_core_${tag} SYSTEM PRIVATE ${folders})
  target_link_libraries(_core_${tag} PRIVATE ${module_links})
  orrery_together(_core_${tag} orrery_message_headers)
  set_target_properties(_core_${tag} PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX ${suffix}
    CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/modules/${tag})
endforeach()
