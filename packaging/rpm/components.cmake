# Read by cpack, for each generator.
if(CPACK_GENERATOR STREQUAL RPM)
  set(CPACK_COMPONENTS_ALL program)
endif()
