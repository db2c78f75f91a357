# Packages by CPack, in the build tree of a preset that sets HEAPSNAP_PACKAGES (`package`):
#
#   cpack -G DEB    heapsnap, libheapsnap0, libheapsnap-dev, postgresql-N-heapsnap, and -dbgsym of each
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
  set(CPACK_GENERATOR DEB)
  list(APPEND CPACK_COMPONENTS_ALL library development)
  if(HEAPSNAP_POSTGRESQL_MAJOR)
    list(APPEND CPACK_COMPONENTS_ALL postgresql)
  endif()
  include(debian/packages.cmake)
endif()
include(CPack)
