// Token of one run: the secret that proves that a process belongs to the run. secrets.hpp describes
// how processes receive the token.
#pragma once

#include <string>
#include <string_view>

namespace orrery::live {

/// Returns 32 random bytes of the operating system. Throws an environment Error if the operating
/// system provides none.
std::string make_token();

/// Returns true if `a` and `b` are equal. Runs in a time that does not depend on the position of
/// the first difference.
bool same_token(std::string_view a, std::string_view b);

}  // namespace orrery::live
