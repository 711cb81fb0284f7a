// Addresses of Unix sockets in the file system. Used by live mode, its NCCL plugins and the process
// group of programs, which is compiled without other libraries. Pure functions; thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <optional>
#include <string>

namespace orrery {

/// Length of the longest path of a Unix socket, in bytes.
inline constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

/// Returns the address of the Unix socket at `path`; nothing if the path is empty, has a NUL byte
/// or is longer than kLongestSocketPath.
std::optional<sockaddr_un> find_socket_address(const std::string& path);

/// Returns the address of the Unix socket at `path`. Throws an environment Error that names the
/// path where find_socket_address() returns nothing. For example, a bind() to the address of
/// "/tmp/run/store" creates that file.
sockaddr_un socket_address(const std::string& path);

}  // namespace orrery
