# Packages by CPack, in the build tree of a preset that sets HEAPSNAP_PACKAGES (`package`):
#
#   cpack -G DEB    heapsnap, libheapsnap0, libheapsnap-dev, postgresql-N-heapsnap, and -dbgsym of each
#   cpack -G RPM    heapsnap
#
# and in that of the preset `static`
#
#   cpack -G TGZ    a tarball whose program runs on every Linux
set(HEAPSNAP_MAINTAINER "heapsnap maintainers <maintainers@heapsnap.example>"
  CACHE STRING "Name and address in packages and their changelog")
set(CPACK_PACKAGE_NAME heapsnap)
set(CPACK_PACKAGE_VENDOR heapsnap)
set(CPACK_PACKAGE_CONTACT ${HEAPSNAP_MAINTAINER})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL program)

if(HEAPSNAP_PACKAGES)
  # The program loads libcapstone at run time, so the tools that make packages do not see that it is needed.
  string(REGEX MATCH "^[0-9]+" capstone_major "${CAPSTONE_VERSION}")
  set(CPACK_GENERATOR DEB)
  list(APPEND CPACK_COMPONENTS_ALL library development)
  if(HEAPSNAP_POSTGRESQL_MAJOR)
    list(APPEND CPACK_COMPONENTS_ALL postgresql)
  endif()
  include(debian/packages.cmake)
  include(rpm/packages.cmake)
elseif(HEAPSNAP_STATIC)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_PACKAGE_FILE_NAME heapsnap-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()
include(CPack)
