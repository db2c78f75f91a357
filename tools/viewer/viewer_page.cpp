#include "tools/viewer/viewer_page.h"

// HEAPSNAP_VIEWER_PAGE is the path of the template.
asm(R"(
        .pushsection .rodata
        .globl kViewerPageBegin
        .globl kViewerPageEnd
kViewerPageBegin:
        .incbin ")" HEAPSNAP_VIEWER_PAGE R"("
kViewerPageEnd:
        .byte 0
        .popsection
)");
extern "C" const char kViewerPageBegin[];
extern "C" const char kViewerPageEnd[];

namespace heapsnap {

std::string_view viewer_page() {
  return {kViewerPageBegin, kViewerPageEnd};
}

}  // namespace heapsnap
