#pragma once

namespace fixture {

void* plain_call();
void* inlined_call();

inline constexpr unsigned kInnerLine = 14;
inline constexpr unsigned kOuterLine = 20;
inline constexpr unsigned kPlainLine = 26;
inline constexpr unsigned kInlinedLine = 32;

}  // namespace fixture
