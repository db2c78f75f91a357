// Demangles names of Rust functions.
//
//   v0      _RNvNtCs1234_7mycrate3foo3bar            mycrate::foo::bar
//   legacy  _ZN7mycrate3foo3bar17h0123456789abcdefE  mycrate::foo::bar
//
// v0 is RFC 2603 (https://doc.rust-lang.org/rustc/symbol-mangling/v0.html). Hashes, which differ
// from build to build, are left out, and so are the types of constants. Generic arguments follow
// without the "::" in front that a path in an expression has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// Nothing when `name` is not the mangled name of a Rust function, or is invalid. Work and result
// are bounded: names can refer back to themselves, and so grow without limit.
std::optional<std::string> rust_demangled(std::string_view name);

}  // namespace heapsnap
