// The secret of one run: whoever does not know it is not part of it. See secrets.hpp for how it
// travels.
#pragma once

#include <string>
#include <string_view>

namespace orrery::live {

/// 32 bytes from the operating system. Throws an environment Error if it gives none.
std::string make_token();

/// Equality in a time that does not depend on where the bytes differ.
bool same_token(std::string_view a, std::string_view b);

}  // namespace orrery::live
