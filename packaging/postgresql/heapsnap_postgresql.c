/* SELECT heapsnap_dump('/path'): see heapsnap.h for what is done to the backend. */
// clang-format off
#include "postgres.h"  // first, as PostgreSQL wants it

#include "fmgr.h"
#include "utils/builtins.h"

#include <heapsnap.h>
// clang-format on

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(heapsnap_dump);

Datum heapsnap_dump(PG_FUNCTION_ARGS) {
  text* path = PG_GETARG_TEXT_PP(0);
  char* path_string = text_to_cstring(path);
  if (!is_absolute_path(path_string)) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_NAME),
                    errmsg("heapsnap_dump: \"%s\" is not an absolute path", path_string),
                    errhint("The backend's working directory is its data directory.")));
  }
  if (heapsnap_dump_self(path_string) != 0) {
    ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
                    errmsg("heapsnap_dump: no snapshot was written"),
                    errdetail("%s", heapsnap_last_error())));
  }
  PG_RETURN_TEXT_P(path);
}
