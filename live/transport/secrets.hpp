// Secrets of one run: a token, and for mutual TLS a certificate authority with a certificate signed
// by the authority. One certificate serves all processes of a run: the certificate proves that its
// holder belongs to the run, and all processes run as one user who could read the others' keys. The
// secrets are files of a folder that only this user may enter. Processes receive the path of the
// folder, so that neither arguments nor environment hold a secret. A certificate is valid for a day
// and is renewed in the folder while the run lasts; a process reads the newest certificate when it
// opens a connection. Thread-safe, except Authority.
#pragma once

#include <chrono>
#include <ctime>
#include <memory>
#include <string>

namespace orrery::live {

/// Token, certificates and key of one run, as held in memory.
struct Secrets {
  std::string token;
  // PEM texts; all empty if connections are not encrypted.
  std::string authority = {}, certificate = {}, key = {};
  /// Folder in which the secrets are renewed; empty if they are not renewed.
  std::string folder = {};
  /// Returns true if connections of the run use TLS.
  bool is_encrypted() const { return !key.empty(); }
};

/// Name in every certificate of a run. A client expects this name instead of the name of a machine.
inline constexpr const char* kCertifiedName = "orrery";

/// Lifetime of a certificate: a stolen certificate is useless a day later. Renewal happens at half
/// of the lifetime.
inline constexpr std::chrono::hours kCertificateLife{24};

/// Certificate authority of one run; signs the run's certificates (P-256). The authority's key
/// exists in this object's memory only, on no disk and in no other process; the authority's own
/// certificate outlasts any run. Single-threaded.
class Authority {
 public:
  /// Generates the run's token, and a key and certificate of the authority if `encrypted`. Throws
  /// an environment Error if the operating system provides no randomness, or OpenSSL fails.
  explicit Authority(bool encrypted);
  ~Authority();
  Authority(Authority&&) noexcept;

  /// Returns the run's token, the same in every call, with a fresh key and certificate (only the
  /// token if not encrypted) and without a folder. is_renewal_due() counts from the last call,
  /// whatever its `age`. `age`: dates the certificate back by this time, which lets tests imitate a
  /// clock that has advanced. Throws an environment Error as the constructor.
  Secrets issue_secrets(std::chrono::seconds age = {});
  /// Returns true if half of a certificate's lifetime has passed since the last issue_secrets(), or
  /// if that call lies in the future (a clock may jump). Returns false if not encrypted; otherwise
  /// true before the first issue_secrets().
  bool is_renewal_due() const;

 private:
  struct Keys;
  std::string token_;
  std::unique_ptr<Keys> keys_;  ///< Keys of the authority; null if not encrypted.
  std::time_t issued_ = 0;
};

/// Returns the secrets of a new authority that is not kept. Throws as Authority.
Secrets make_secrets(bool encrypted, std::chrono::seconds age = {});

/// Throws an environment Error unless `folder` is a folder of this user without any permission for
/// others.
void check_private(const std::string& folder);
/// Writes `bytes` to a new file that only this user may read; never follows a link. Throws an
/// environment Error if the file exists or cannot be written; a part of the file may exist then.
void write_private(const std::string& path, const std::string& bytes);

/// Writes the file `token` and, if encrypted, `ca.pem`, `certificate.pem` and `key.pem` in
/// `folder`, readable by this user only. Throws an environment Error if a file exists or cannot be
/// written.
void write_secrets(const Secrets& secrets, const std::string& folder);

/// Replaces key and certificate in `folder`, each atomically, the key first; token and authority
/// stay. Does nothing and returns true if not encrypted. Returns false, with errno set, if a file
/// cannot be replaced; the key may be new by then.
bool renew_secrets(const Secrets& secrets, const std::string& folder);

/// Returns the secrets that secrets.folder holds now; returns `secrets` unchanged without a folder,
/// or if the folder cannot be read. Blocks as read_secrets() does.
Secrets newest(const Secrets& secrets);

/// Returns the secrets in `folder`, with the three TLS files if `encrypted`. Waits up to a second
/// for a key and a certificate that belong together. Throws an environment Error if a file is
/// missing or empty, if no such pair appears, or as check_private().
Secrets read_secrets(const std::string& folder, bool encrypted);

}  // namespace orrery::live
