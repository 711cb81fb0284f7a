// What the processes of one run know and nobody else does: a token, and for mutual TLS an authority
// with a certificate signed by it. One certificate serves all processes of a run: it proves that
// its holder belongs to the run, and they all run as one user who could read each other's. They
// are kept as files of a folder that only this user may enter; processes are told the folder, so
// that neither arguments nor environment hold anything worth stealing. A certificate holds for a
// day and is renewed in the folder while the run goes on; whoever opens a connection reads it anew.
// Thread-safe, but for Authority.
#pragma once

#include <chrono>
#include <ctime>
#include <memory>
#include <string>

namespace orrery::live {

struct Secrets {
  std::string token;
  // PEM; all empty: nothing is encrypted.
  std::string authority = {}, certificate = {}, key = {};
  std::string folder = {};  ///< where they are renewed; empty: nowhere
  bool encrypted() const { return !key.empty(); }
};

/// The name in every certificate of a run: who calls expects it instead of the name of a machine.
inline constexpr const char* kCertifiedName = "orrery";

/// How long a certificate holds: what somebody has stolen of a run opens nothing a day later. It is
/// renewed at half of that.
inline constexpr std::chrono::hours kCertificateLife{24};

/// Signs a run's certificates (P-256). Its key is in this object's memory alone, on no disk and in
/// no other process; its own certificate, by which the run's processes know each other, holds
/// longer than any run. One thread.
class Authority {
 public:
  /// Makes the run's token. Not `encrypted`: there is nothing to sign. Throws an environment Error
  /// without randomness.
  explicit Authority(bool encrypted);
  ~Authority();
  Authority(Authority&&) noexcept;

  /// The token as ever, with a fresh key and certificate. `age`: as if it had been issued so long
  /// ago, which to whoever checks it is a clock that has gone on.
  Secrets issue(std::chrono::seconds age = {});
  /// Half of the newest certificate's life is over, or it has not begun yet: a clock may jump.
  bool due() const;

 private:
  struct Keys;
  std::string token_;
  std::unique_ptr<Keys> keys_;  ///< null: not encrypted
  std::time_t issued_ = 0;
};

/// Of an authority that is forgotten at once.
Secrets make_secrets(bool encrypted, std::chrono::seconds age = {});

/// Throws an environment Error unless that is a folder that only this user may enter.
void check_private(const std::string& folder);
/// A new file that only this user may read; never through a link. Throws an environment Error if
/// it cannot be written, or is there.
void write_private(const std::string& path, const std::string& bytes);

/// Files `token`, `ca.pem`, `certificate.pem` and `key.pem` in `folder`, readable by this user
/// only. Throws an environment Error if they cannot be written, or one of them is there.
void write_secrets(const Secrets& secrets, const std::string& folder);

/// Replaces key and certificate in `folder`, each of them whole. False, with errno: it could not.
bool renew_secrets(const Secrets& secrets, const std::string& folder);

/// What they are by now; as they were where they cannot be read.
Secrets newest(const Secrets& secrets);

/// Reads them back; without the three of TLS unless `encrypted`. Throws an environment Error if
/// one is missing, or others than this user may enter the folder.
Secrets read_secrets(const std::string& folder, bool encrypted);

}  // namespace orrery::live
