// What the processes of one run know and nobody else does: a token, and for mutual TLS an authority
// with a certificate signed by it. One certificate serves all processes of a run: it proves that
// its holder belongs to the run, and they all run as one user who could read each other's. They
// are kept as files of a folder that only this user may enter; processes are told the folder, so
// that neither arguments nor environment hold anything worth stealing. Thread-safe.
#pragma once

#include <chrono>
#include <string>

namespace orrery::live {

struct Secrets {
  std::string token;
  // PEM; all empty: nothing is encrypted.
  std::string authority = {}, certificate = {}, key = {};
  bool encrypted() const { return !key.empty(); }
};

/// The name in every certificate of a run: who calls expects it instead of the name of a machine.
inline constexpr const char* kCertifiedName = "orrery";

/// A fresh token; if `encrypted`, a fresh authority too (P-256, valid for ten years: as long as any
/// run), whose key is forgotten at once: it signs nothing else. `age`: as if they had been made so
/// long ago, which to whoever checks them is a clock that has gone on. Throws an environment Error
/// without randomness.
Secrets make_secrets(bool encrypted, std::chrono::seconds age = {});

/// Throws an environment Error unless that is a folder that only this user may enter.
void check_private(const std::string& folder);
/// A new file that only this user may read; never through a link. Throws an environment Error if
/// it cannot be written, or is there.
void write_private(const std::string& path, const std::string& bytes);

/// Files `token`, `ca.pem`, `certificate.pem` and `key.pem` in `folder`, readable by this user
/// only. Throws an environment Error if they cannot be written, or one of them is there.
void write_secrets(const Secrets& secrets, const std::string& folder);

/// Reads them back; without the three of TLS unless `encrypted`. Throws an environment Error if
/// one is missing, or others than this user may enter the folder.
Secrets read_secrets(const std::string& folder, bool encrypted);

}  // namespace orrery::live
