#include "policies/run/policy_failure.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace orrery {
namespace {

const SourcePlace kPlace{"slow.py", 3, 7, "  raise ValueError"};

/// Returns the error that the record of `error` throws.
Error thrown_again(const Error& error) {
  try {
    throw_failure(failure_record(error));
  } catch (const Error& again) {
    return again;
  }
}

TEST(PolicyFailure, ItsTextHasThePlaceAndNoWordTwice) {
  EXPECT_EQ(policy_failure(Error(kPlace, "no value")), "the policy failed: slow.py:3: no value");
  EXPECT_EQ(policy_failure(Error(ErrorKind::environment, "no GPU")), "the policy failed: no GPU");
  EXPECT_EQ(policy_failure(std::runtime_error("no value")), "the policy failed: no value");
}

TEST(PolicyFailure, TheRecordOfAnErrorThrowsAnEqualOne) {
  const Error with_place = thrown_again(Error(kPlace, "no value"));
  EXPECT_EQ(with_place.kind(), ErrorKind::bad_input);
  EXPECT_EQ(with_place.what(), std::string(Error(kPlace, "no value").what()));
  for (const ErrorKind kind : {ErrorKind::goal_missed, ErrorKind::usage, ErrorKind::bad_input,
                               ErrorKind::environment, ErrorKind::internal}) {
    const Error again = thrown_again(Error(kind, "no GPU"));
    EXPECT_EQ(again.kind(), kind);
    EXPECT_EQ(again.message(), "no GPU");
    EXPECT_FALSE(again.source_place().has_value());
  }
}

TEST(PolicyFailure, AnUnknownKindIsInternal) {
  Failure failure = failure_record(Error(ErrorKind::usage, "new"));
  for (const std::uint32_t kind : {0u, 6u}) {
    failure.set_kind(kind);
    try {
      throw_failure(failure);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::internal) << kind;
    }
  }
}

}  // namespace
}  // namespace orrery
