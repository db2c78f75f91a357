#include "base/error.h"
#include "tools/push/http_post.h"

namespace heapsnap {

HttpAnswer http_post(const HttpRequest& /*request*/) {
  throw Error(ErrorKind::kUnsupported, "push",
              "this heapsnap is linked statically, and cannot load libcurl",
              "write the profile to a file and send that: heapsnap export SNAPSHOT --format pprof "
              "-o FILE");
}

}  // namespace heapsnap
