// The template of the page that `heapsnap view` writes (report/view_page.h): markup, style and
// program, which heapsnap carries in itself.
#pragma once

#include <string_view>

namespace heapsnap {

std::string_view viewer_page();

}  // namespace heapsnap
