# Sources of the fault-tolerant process group: the package ships them, and the user's compiler
# builds them against the user's PyTorch (python/orrery/programs/process_group.py).
foreach(room group torch)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/live/${room}/*.?pp)
  set(native ${CMAKE_BINARY_DIR}/python/orrery/native/live/${room})
  file(MAKE_DIRECTORY ${native})
  foreach(source ${sources})
    cmake_path(GET source FILENAME name)
    file(CREATE_LINK ${source} ${native}/${name} SYMBOLIC)
  endforeach()
  install(FILES ${sources} DESTINATION orrery/native/live/${room} COMPONENT python)
endforeach()
