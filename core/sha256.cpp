#include "core/sha256.hpp"

// OpenSSL 3 deprecates these functions, but the state of its newer ones (EVP) cannot be saved and
// restored.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <cstring>
#include <type_traits>

#include "core/error.hpp"

namespace orrery {

struct Sha256::State {
  SHA256_CTX context;
  static_assert(std::is_trivially_copyable_v<SHA256_CTX>);
};

Sha256::Sha256() : state_(std::make_unique<State>()) { SHA256_Init(&state_->context); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view bytes) {
  SHA256_Update(&state_->context, bytes.data(), bytes.size());
}

std::string Sha256::state() const {
  return {reinterpret_cast<const char*>(&state_->context), sizeof state_->context};
}

void Sha256::restore_state(std::string_view state) {
  ensure(state.size() == sizeof state_->context,
         "a saved hash state has the size that this build writes");
  std::memcpy(&state_->context, state.data(), state.size());
  ensure(state_->context.num < SHA256_CBLOCK, "a saved hash state is valid");
}

std::string Sha256::hex() const {
  SHA256_CTX copy = state_->context;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, &copy);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(std::size_t{2} * SHA256_DIGEST_LENGTH);
  for (const unsigned char byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace orrery
