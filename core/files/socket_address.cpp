#include "core/files/socket_address.hpp"

#include <cstring>

#include "core/error.hpp"

namespace orrery {

std::optional<sockaddr_un> find_socket_address(const std::string& path) {
  const bool fits =
      !path.empty() && path.size() <= kLongestSocketPath && path.find('\0') == std::string::npos;
  if (!fits) return std::nullopt;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

sockaddr_un socket_address(const std::string& path) {
  if (const auto address = find_socket_address(path)) return *address;
  throw Error(ErrorKind::environment, path + ": expected the path of a socket, of 1 to " +
                                          std::to_string(kLongestSocketPath) +
                                          " bytes, found one of " + std::to_string(path.size()) +
                                          "; set TMPDIR to a shorter folder");
}

}  // namespace orrery
