// The characters of a str, wherever the version keeps them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "runtime/python/python_layout.h"
#include "target/page_cache.h"

namespace heapsnap {

// As UTF-8. Nothing of one that is empty, has more than `most` characters, or keeps them apart from
// itself, as names never do; nor of what is no str.
std::optional<std::string> python_text(PageCache& cache, const PythonLayout& layout, Address at,
                                       size_t most);
// The same of one that can be a name: nothing where it has a blank or a control character in it.
std::optional<std::string> python_name(PageCache& cache, const PythonLayout& layout, Address at,
                                       size_t most);

// Whether there is neither of these in it.
bool is_python_name(std::string_view text);

}  // namespace heapsnap
