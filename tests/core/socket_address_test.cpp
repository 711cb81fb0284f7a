#include "core/files/socket_address.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

TEST(SocketAddress, HasThePathWithItsLastByte) {
  const std::string longest(kLongestSocketPath, 'p');
  const sockaddr_un address = socket_address(longest);
  EXPECT_EQ(address.sun_family, AF_UNIX);
  EXPECT_EQ(std::string(address.sun_path), longest);
}

TEST(SocketAddress, TooLongAPathIsAnErrorThatNamesIt) {
  const std::string path = "/tmp/" + std::string(kLongestSocketPath - 4, 'p');
  EXPECT_FALSE(find_socket_address(path));
  try {
    socket_address(path);
    FAIL() << "a path of " << path.size() << " bytes has an address";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_EQ(error.message(),
              path +
                  ": expected the path of a socket, of 1 to 107 bytes, found one of 108; set "
                  "TMPDIR to a shorter folder");
  }
}

TEST(SocketAddress, NoPathAndAPathThatTheSystemWouldCutHaveNone) {
  EXPECT_FALSE(find_socket_address(""));
  EXPECT_FALSE(find_socket_address(std::string("/tmp/a\0b", 8)));
  EXPECT_THROW(socket_address(""), Error);
}

}  // namespace
}  // namespace orrery
