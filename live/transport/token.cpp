#include "live/transport/token.hpp"

#include <array>
#include <fstream>

#include <openssl/crypto.h>

#include "core/error.hpp"

namespace orrery::live {

std::string make_token() {
  std::array<char, 32> bytes;
  std::ifstream source("/dev/urandom", std::ios::binary);
  if (!source.read(bytes.data(), bytes.size())) {
    throw Error(ErrorKind::environment,
                "expected 32 random bytes of /dev/urandom for the token of this run, found fewer; "
                "check that /dev/urandom is readable");
  }
  return {bytes.data(), bytes.size()};
}

bool same_token(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace orrery::live
