#include "live/transport/secrets.hpp"

#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "core/error.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate parse(const std::string& pem) {
  BIO* const bytes = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate out(PEM_read_bio_X509(bytes, nullptr, nullptr, nullptr), X509_free);
  BIO_free(bytes);
  return out;
}

bool signed_by(X509* certificate, X509* authority) {
  return X509_verify(certificate, X509_get0_pubkey(authority)) == 1;
}

TEST(Secrets, EachRunHasAnAuthorityOfItsOwn) {
  const Secrets one = make_secrets(true), other = make_secrets(true);
  EXPECT_NE(one.token, other.token);
  const Certificate authority = parse(one.authority), own = parse(one.certificate);
  ASSERT_TRUE(authority && own);
  EXPECT_TRUE(signed_by(own.get(), authority.get()));
  EXPECT_FALSE(signed_by(own.get(), parse(other.authority).get()));
  EXPECT_EQ(X509_check_ca(authority.get()), 1);
  EXPECT_EQ(X509_check_ca(own.get()), 0);
  EXPECT_EQ(X509_check_host(own.get(), kCertifiedName, 0, 0, nullptr), 1);
}

/// Whether the run's certificate holds under a clock that has gone on by that time.
bool holds_after(const Secrets& secrets, std::chrono::hours time) {
  const Certificate authority = parse(secrets.authority), own = parse(secrets.certificate);
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_CTX* const check = X509_STORE_CTX_new();
  X509_STORE_add_cert(store, authority.get());
  X509_STORE_CTX_init(check, store, own.get(), nullptr);
  X509_STORE_CTX_set_time(check, 0, std::time(nullptr) + std::chrono::seconds(time).count());
  const bool holds = X509_verify_cert(check) == 1;
  X509_STORE_CTX_free(check);
  X509_STORE_free(store);
  return holds;
}

TEST(Secrets, ACertificateHoldsForADay) {
  using std::chrono::hours;
  const Secrets secrets = make_secrets(true);
  EXPECT_TRUE(holds_after(secrets, hours(0)));
  EXPECT_TRUE(holds_after(secrets, hours(23)));
  EXPECT_FALSE(holds_after(secrets, hours(25)));
  EXPECT_FALSE(holds_after(secrets, hours(-1)));
}

TEST(Secrets, AnAuthorityIssuesOthersForTheSameRun) {
  Authority authority(true);
  const Secrets first = authority.issue_secrets(), second = authority.issue_secrets();
  EXPECT_FALSE(authority.is_renewal_due()) << "it has just issued one";
  EXPECT_EQ(first.token, second.token);
  EXPECT_EQ(first.authority, second.authority);
  EXPECT_NE(first.key, second.key);
  const Certificate issuer = parse(first.authority);
  EXPECT_TRUE(signed_by(parse(second.certificate).get(), issuer.get()));
}

TEST(Secrets, AreRenewedInTheirFolderAndReadAsAPair) {
  const RunFolder folder;
  Authority authority(true);
  write_secrets(authority.issue_secrets(), folder.path());
  const Secrets before = read_secrets(folder.path(), true);
  const Secrets fresh = authority.issue_secrets();
  ASSERT_TRUE(renew_secrets(fresh, folder.path()));
  const Secrets after = newest(before);
  EXPECT_EQ(after.key, fresh.key);
  EXPECT_EQ(after.certificate, fresh.certificate);
  fs::remove(folder.path() + "/key.pem");  // half a renewal
  std::ofstream(folder.path() + "/key.pem") << before.key;
  EXPECT_THROW(read_secrets(folder.path(), true), Error);
  EXPECT_EQ(newest(after).key, fresh.key) << "as they were";
  fs::remove_all(folder.path());
  EXPECT_FALSE(renew_secrets(fresh, folder.path()));
}

TEST(Secrets, WithoutEncryptionThereIsATokenAndNothingElse) {
  const Secrets secrets = make_secrets(false);
  EXPECT_FALSE(secrets.is_encrypted());
  EXPECT_EQ(secrets.token.size(), 32u);
  EXPECT_TRUE(secrets.authority.empty() && secrets.certificate.empty() && secrets.key.empty());
}

TEST(Secrets, ComeBackFromTheirFolderAndOnlyTheirOwnerMayReadThem) {
  const RunFolder folder;
  const Secrets secrets = make_secrets(true);
  write_secrets(secrets, folder.path());
  const Secrets back = read_secrets(folder.path(), true);
  EXPECT_EQ(back.token, secrets.token);
  EXPECT_EQ(back.authority, secrets.authority);
  EXPECT_EQ(back.certificate, secrets.certificate);
  EXPECT_EQ(back.key, secrets.key);
  int files = 0;
  for (const auto& file : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
    ++files;
  }
  EXPECT_EQ(files, 4 + 1);  // including the run's marker; the key of the authority is in no file
  EXPECT_FALSE(read_secrets(folder.path(), false).is_encrypted());
  EXPECT_THROW(write_secrets(secrets, folder.path()), Error);  // nothing is overwritten
}

TEST(Secrets, AFolderThatOthersMayEnterIsRefused) {
  const RunFolder folder;
  write_secrets(make_secrets(false), folder.path());
  ASSERT_EQ(chmod(folder.path().c_str(), 0750), 0);
  EXPECT_THROW(read_secrets(folder.path(), false), Error);
}

TEST(Secrets, AMissingPartIsAnEnvironmentError) {
  const RunFolder folder;
  write_secrets(make_secrets(false), folder.path());
  try {
    read_secrets(folder.path(), true);  // never falls back to plain text
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
  }
}

}  // namespace
}  // namespace orrery::live
