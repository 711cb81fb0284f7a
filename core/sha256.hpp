// SHA-256 for report hashes and log digests, computed by OpenSSL. Not thread-safe per object.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace orrery {

/// Incremental SHA-256, of no bytes at first. A moved-from object may only be destroyed or assigned
/// to.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  /// Appends bytes to the hashed text.
  void update(std::string_view bytes);
  /// Returns the 64 lower-case hex digits of all bytes so far; update() may continue afterwards.
  std::string hex() const;
  /// Returns the state as bytes for restore_state() of the same build, in another process.
  std::string state() const;
  /// Replaces the state, so that all bytes so far are those hashed at state(). Throws an internal
  /// Error for a `state` of another size or with an impossible fill; the object must then not be
  /// used.
  void restore_state(std::string_view state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the SHA-256 of `bytes` as 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace orrery
