// The page of `heapsnap view`: one HTML file that needs nothing but itself.
//
//   template (tools/viewer)        what is put in at its marker
//   +-------------------------+
//   | CSP, style, markup      |
//   | marker                  |    <script type="application/json" id="NAME">…</script>
//   | program                 |    <script type="text/plain" id="NAME">base64…</script>
//   +-------------------------+
//
// Scripts of these types are never run, and the policy of the template runs none but its own
// program, by its hash. What was read from a snapshot is in the page only as JSON, where '<' is
// written as an escape, and as base64: neither can end the script that holds it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/writer.h"

namespace heapsnap {

struct ViewPage {
  struct Part {
    std::string name;  // of letters: the id of the script
    std::string bytes;
  };
  std::vector<Part> documents;  // of JSON
  std::vector<Part> binaries;
};

inline constexpr std::string_view kViewMarker = "<!--heapsnap-data-->";

// JSON that may stand in a script of a page.
std::string script_json(std::string_view json);
// RFC 4648, with padding.
std::string base64_text(std::string_view bytes);

// Throws Error{kInternal} when the template has no marker, and as Writer::write().
void print_view_page(Writer& out, std::string_view page_template, const ViewPage& page);

}  // namespace heapsnap
