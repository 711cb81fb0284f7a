#include "live/transport/secrets.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "core/error.hpp"
#include "live/transport/token.hpp"

namespace orrery::live {
namespace {

// Longer than any run: a run whose certificates have expired cannot link up after a fault. The key
// that would sign new ones is forgotten, and what ends these is the end of the run, which takes
// their key away.
constexpr long kValidDays = 10 * 365;
constexpr long kClockSkewSeconds = 5 * 60;  // between machines

template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const { release(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Release<BIO_free_all>>;

/// OpenSSL fails here without memory or randomness only.
template <class Result>
Result must(Result result) {
  if (!result) throw Error(ErrorKind::environment, "OpenSSL cannot make the run's certificates");
  return result;
}

Key make_key() { return Key(must(EVP_EC_gen("P-256"))); }

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(must(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str())));
  must(X509_add_ext(certificate, extension.get(), -1));
}

/// Unsigned, valid from `age` ago on.
Certificate draft(EVP_PKEY* key, const char* name, std::chrono::seconds age) {
  Certificate certificate(must(X509_new()));
  X509* const it = certificate.get();
  must(X509_set_version(it, X509_VERSION_3));
  const std::string random = make_token();
  std::uint64_t serial = 0;
  std::memcpy(&serial, random.data(), sizeof serial);
  must(ASN1_INTEGER_set_uint64(X509_get_serialNumber(it), serial >> 1));
  const auto made = static_cast<long>(-age.count());
  std::time_t now = std::time(nullptr);
  must(X509_time_adj_ex(X509_getm_notBefore(it), 0, made - kClockSkewSeconds, &now));
  must(X509_time_adj_ex(X509_getm_notAfter(it), static_cast<int>(kValidDays), made, &now));
  must(X509_set_pubkey(it, key));
  must(X509_NAME_add_entry_by_txt(X509_get_subject_name(it), "CN", MBSTRING_ASC,
                                  reinterpret_cast<const unsigned char*>(name), -1, -1, 0));
  return certificate;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  must(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)));
  must(X509_sign(certificate, key, EVP_sha256()));
}

template <class Write>
std::string pem(const Write& write) {
  const Memory memory(must(BIO_new(BIO_s_mem())));
  must(write(memory.get()));
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string pem(X509* certificate) {
  return pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

void add_certificates(Secrets& secrets, std::chrono::seconds age) {
  const Key authority_key = make_key(), key = make_key();
  const Certificate authority = draft(authority_key.get(), "authority of one Orrery run", age);
  extend(authority.get(), authority.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(authority.get(), authority.get(), NID_key_usage, "critical,keyCertSign");
  sign(authority.get(), authority.get(), authority_key.get());
  const Certificate own = draft(key.get(), kCertifiedName, age);
  extend(own.get(), authority.get(), NID_basic_constraints, "critical,CA:FALSE");
  extend(own.get(), authority.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  extend(own.get(), authority.get(), NID_subject_alt_name, fmt::format("DNS:{}", kCertifiedName));
  sign(own.get(), authority.get(), authority_key.get());
  secrets.authority = pem(authority.get());
  secrets.certificate = pem(own.get());
  secrets.key = pem([&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file || bytes.empty()) {
    throw Error(ErrorKind::environment, fmt::format("cannot read the run's secret {}", path));
  }
  return bytes;
}

}  // namespace

void check_private(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::environment, fmt::format("there is no folder {}", folder));
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("{} holds secrets and others may enter it; run: chmod 700 {}", folder,
                            folder));
  }
}

void write_private(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const bool written =
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  const int reason = errno;
  if (file >= 0) close(file);
  if (written) return;
  throw Error(ErrorKind::environment,
              fmt::format("cannot write {}: {}", path, std::strerror(reason)));
}

Secrets make_secrets(bool encrypted, std::chrono::seconds age) {
  Secrets secrets{.token = make_token()};
  if (encrypted) add_certificates(secrets, age);
  return secrets;
}

void write_secrets(const Secrets& secrets, const std::string& folder) {
  write_private(folder + "/token", secrets.token);
  if (!secrets.encrypted()) return;
  write_private(folder + "/ca.pem", secrets.authority);
  write_private(folder + "/certificate.pem", secrets.certificate);
  write_private(folder + "/key.pem", secrets.key);
}

Secrets read_secrets(const std::string& folder, bool encrypted) {
  check_private(folder);
  Secrets secrets{.token = read_file(folder + "/token")};
  if (!encrypted) return secrets;
  secrets.authority = read_file(folder + "/ca.pem");
  secrets.certificate = read_file(folder + "/certificate.pem");
  secrets.key = read_file(folder + "/key.pem");
  return secrets;
}

}  // namespace orrery::live
