// Commands that a reader can copy into a shell.
#pragma once

#include <string>
#include <string_view>

namespace heapsnap {

// `text` as one word of a command, quoted where a shell would read it otherwise: "a.hsnap",
// "'my file'". `stand_in` for what cannot be printed as it is.
std::string shell_word(std::string_view text, std::string_view stand_in);

}  // namespace heapsnap
