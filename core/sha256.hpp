// SHA-256 for report hashes and log digests (OpenSSL does the work). Not thread-safe per object.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace orrery {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::string_view bytes);
  /// The 64 lower-case hex digits of everything so far; update() may go on afterwards.
  std::string hex() const;
  /// Where it stands, as bytes for restore() of the same build, in another process.
  std::string state() const;
  void restore(std::string_view state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace orrery
