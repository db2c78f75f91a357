#include "tools/tracker_image/tracker_image.h"

// HEAPSNAP_TRACKER_FILE is the path of the library where it was built.
asm(R"(
        .pushsection .rodata
        .balign 16
        .globl kTrackerImageBegin
        .globl kTrackerImageEnd
kTrackerImageBegin:
        .incbin ")" HEAPSNAP_TRACKER_FILE R"("
kTrackerImageEnd:
        .byte 0
        .popsection
)");
extern "C" const std::byte kTrackerImageBegin[];
extern "C" const std::byte kTrackerImageEnd[];

namespace heapsnap {

std::span<const std::byte> tracker_image() {
  return {kTrackerImageBegin, kTrackerImageEnd};
}

}  // namespace heapsnap
