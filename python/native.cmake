# Sources of the fault-tolerant process group: the package ships them, and the user's compiler
# builds them against the user's PyTorch (python/orrery/programs/process_group.py).
foreach(room group codec torch)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/live/${room}/*.?pp)
  set(native ${CMAKE_BINARY_DIR}/python/orrery/native/live/${room})
  file(MAKE_DIRECTORY ${native})
  foreach(source ${sources})
    cmake_path(GET source FILENAME name)
    file(CREATE_LINK ${source} ${native}/${name} SYMBOLIC)
  endforeach()
  install(FILES ${sources} DESTINATION orrery/native/live/${room} COMPONENT python)
endforeach()
foreach(source core/error.hpp core/error.cpp core/processor/vector_clones.hpp core/schema/names.hpp
    core/files/socket_address.hpp core/files/socket_address.cpp
    traces/workload/gradient_codec.hpp traces/workload/gradient_codec.cpp)
  cmake_path(GET source PARENT_PATH room)
  set(native ${CMAKE_BINARY_DIR}/python/orrery/native)
  file(MAKE_DIRECTORY ${native}/${room})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${source} ${native}/${source} SYMBOLIC)
  install(FILES ${CMAKE_SOURCE_DIR}/${source} DESTINATION orrery/native/${room} COMPONENT python)
endforeach()
