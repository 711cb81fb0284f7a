# Examples of the Python package: orrery.example() finds these files by name. Scenarios that read a
# trace from outside the repository are left out.
set(package ${CMAKE_BINARY_DIR}/python/orrery)
set(outside chakra-gpt64.yaml)
file(GLOB examples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.yaml
  ${CMAKE_SOURCE_DIR}/examples/*.csv
  ${CMAKE_SOURCE_DIR}/examples/*/*.yaml ${CMAKE_SOURCE_DIR}/examples/recordings/*.et
  ${CMAKE_SOURCE_DIR}/python/notebooks/*.ipynb)
foreach(example ${examples})
  cmake_path(GET example FILENAME name)
  if(example MATCHES "/examples/(.+/)[^/]+$")
    set(name ${CMAKE_MATCH_1}${name})
  endif()
  if(NOT name IN_LIST outside)
    cmake_path(GET name PARENT_PATH folder)
    file(MAKE_DIRECTORY ${package}/examples/${folder})
    file(CREATE_LINK ${example} ${package}/examples/${name} SYMBOLIC)
    install(FILES ${example} DESTINATION orrery/examples/${folder} COMPONENT python)
  endif()
endforeach()
