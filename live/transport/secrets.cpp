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
#include <thread>

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

// Lifetime of the authority's certificate. The certificate lies beside the keys, so an earlier end
// would protect no secret.
constexpr std::chrono::hours kAuthorityLife{10 * 365 * 24};
// Allowed difference between the clocks of two machines.
constexpr long kClockSkewSeconds = 5 * 60;
// Key and certificate are two files: a reader that sees one new and one old file waits for the
// second.
constexpr int kPairAttempts = 100;
constexpr std::chrono::milliseconds kPairPause{10};

template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Release<BIO_free_all>>;

/// Returns `result`, or throws. OpenSSL fails here only without memory or randomness.
template <class Result>
Result must(Result result) {
  if (!result)
    throw Error(ErrorKind::environment,
                "expected OpenSSL to generate the run's certificates, found an OpenSSL failure; "
                "check free memory and /dev/urandom");
  return result;
}

Key make_key() { return Key(must(EVP_EC_gen("P-256"))); }

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(must(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str())));
  must(X509_add_ext(certificate, extension.get(), -1));
}

/// Returns an unsigned certificate, valid for `life` starting `age` ago.
Certificate draft(EVP_PKEY* key, const char* name, std::chrono::seconds age,
                  std::chrono::seconds life) {
  Certificate certificate(must(X509_new()));
  X509* const it = certificate.get();
  must(X509_set_version(it, X509_VERSION_3));
  const std::string random = make_token();
  std::uint64_t serial = 0;
  std::memcpy(&serial, random.data(), sizeof serial);
  must(ASN1_INTEGER_set_uint64(X509_get_serialNumber(it), serial >> 1));
  const auto made = static_cast<long>(-age.count());
  const auto end = made + static_cast<long>(life.count());
  std::time_t now = std::time(nullptr);
  must(X509_time_adj_ex(X509_getm_notBefore(it), 0, made - kClockSkewSeconds, &now));
  must(X509_time_adj_ex(X509_getm_notAfter(it), 0, end, &now));
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

bool is_pair(const std::string& certificate, const std::string& key) {
  const auto memory = [](const std::string& text) {
    return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  const Memory of_certificate = memory(certificate), of_key = memory(key);
  const Certificate own(PEM_read_bio_X509(of_certificate.get(), nullptr, nullptr, nullptr));
  const Key its(PEM_read_bio_PrivateKey(of_key.get(), nullptr, nullptr, nullptr));
  return own && its && X509_check_private_key(own.get(), its.get()) == 1;
}

bool try_write(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  const bool whole = write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  const int reason = errno;
  close(file);
  errno = reason;
  return whole;
}

/// Replaces the file atomically: the file is either the new file or the old one.
bool replace(const std::string& path, const std::string& bytes) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());  // Leftover of a failed attempt.
  return try_write(fresh, bytes) && rename(fresh.c_str(), path.c_str()) == 0;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file || bytes.empty()) {
    throw Error(ErrorKind::environment,
                fmt::format("expected a readable secret of the run at {}, found none; check that "
                            "the run's folder is complete",
                            path));
  }
  return bytes;
}

}  // namespace

void check_private(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::environment,
                fmt::format("expected a folder at {}, found none; create the folder with mode 700",
                            folder));
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("expected that only this user may enter {}, which holds secrets, found "
                            "other permissions; run: chmod 700 {}",
                            folder, folder));
  }
}

void write_private(const std::string& path, const std::string& bytes) {
  if (try_write(path, bytes)) return;
  throw Error(ErrorKind::environment,
              fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

struct Authority::Keys {
  Key key = make_key();
  Certificate certificate;
};

Authority::Authority(bool encrypted) : token_(make_token()) {
  if (!encrypted) return;
  keys_ = std::make_unique<Keys>();
  EVP_PKEY* const key = keys_->key.get();
  keys_->certificate = draft(key, "authority of one Orrery run", {}, kAuthorityLife);
  X509* const own = keys_->certificate.get();
  extend(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(own, own, NID_key_usage, "critical,keyCertSign");
  sign(own, own, key);
}

Authority::~Authority() = default;
Authority::Authority(Authority&&) noexcept = default;

Secrets Authority::issue_secrets(std::chrono::seconds age) {
  Secrets secrets{.token = token_};
  issued_ = std::time(nullptr);
  if (!keys_) return secrets;
  const Key key = make_key();
  X509* const issuer = keys_->certificate.get();
  const Certificate own = draft(key.get(), kCertifiedName, age, kCertificateLife);
  extend(own.get(), issuer, NID_basic_constraints, "critical,CA:FALSE");
  extend(own.get(), issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  extend(own.get(), issuer, NID_subject_alt_name, fmt::format("DNS:{}", kCertifiedName));
  sign(own.get(), issuer, keys_->key.get());
  secrets.authority = pem(issuer);
  secrets.certificate = pem(own.get());
  secrets.key = pem([&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return secrets;
}

bool Authority::is_renewal_due() const {
  const std::time_t now = std::time(nullptr);
  const auto half = std::chrono::seconds(kCertificateLife).count() / 2;
  return keys_ && (now - issued_ >= half || now < issued_);
}

Secrets make_secrets(bool encrypted, std::chrono::seconds age) {
  return Authority(encrypted).issue_secrets(age);
}

void write_secrets(const Secrets& secrets, const std::string& folder) {
  write_private(folder + "/token", secrets.token);
  if (!secrets.is_encrypted()) return;
  write_private(folder + "/ca.pem", secrets.authority);
  write_private(folder + "/certificate.pem", secrets.certificate);
  write_private(folder + "/key.pem", secrets.key);
}

bool renew_secrets(const Secrets& secrets, const std::string& folder) {
  return !secrets.is_encrypted() || (replace(folder + "/key.pem", secrets.key) &&
                                  replace(folder + "/certificate.pem", secrets.certificate));
}

Secrets newest(const Secrets& secrets) {
  if (secrets.folder.empty()) return secrets;
  try {
    return read_secrets(secrets.folder, secrets.is_encrypted());
  } catch (const Error&) {  // The process may lack descriptors, for example.
    return secrets;
  }
}

Secrets read_secrets(const std::string& folder, bool encrypted) {
  check_private(folder);
  Secrets secrets{.token = read_file(folder + "/token"), .folder = folder};
  if (!encrypted) return secrets;
  secrets.authority = read_file(folder + "/ca.pem");
  for (int attempt = 0; attempt < kPairAttempts; ++attempt) {
    secrets.certificate = read_file(folder + "/certificate.pem");
    secrets.key = read_file(folder + "/key.pem");
    if (is_pair(secrets.certificate, secrets.key)) return secrets;
    std::this_thread::sleep_for(kPairPause);
  }
  throw Error(ErrorKind::environment,
              fmt::format("expected {}/certificate.pem to match the key beside it, found another "
                          "pair; start the run again",
                          folder));
}

}  // namespace orrery::live
