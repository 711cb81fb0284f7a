#include "policies/seam/sample_columns.hpp"

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

RankSample measured(std::uint32_t rank, double seconds) {
  RankSample sample;
  sample.rank = {rank};
  sample.micro_batch_time = {seconds, 5, Origin::measured};
  return sample;
}

TEST(SampleColumn, OneAgeAndOneOriginStandForAllRows) {
  toy::HandMade source;
  source.of_ranks = {measured(0, 1.0), {}, measured(2, 3.0)};
  const auto column = source.column(SampleField::micro_batch_time, {0});
  ASSERT_EQ(column->size(), 3u);
  EXPECT_EQ(column->ages, std::vector<Nanos>{5});
  EXPECT_EQ(column->origin(0), Origin::measured);
  EXPECT_TRUE(std::isnan(column->values[1]));
  EXPECT_FALSE(column->sample(1).is_known());
  EXPECT_EQ(column->sample(2).value, 3.0);
  source.of_ranks[2].micro_batch_time.age = 8;
  EXPECT_EQ(source.column(SampleField::micro_batch_time, {0})->ages.size(), 3u);
}

/// Source that counts the columns that it makes.
class Counted : public ColumnSamples {
 public:
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }
  using ColumnSamples::clear_tables;
  int made = 0;

 private:
  std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId) override {
    SampleRows rows;
    rows.ids = {4, 9};
    if (table == SampleTable::ranks) rows.steps = {1, 2};
    if (table == SampleTable::links) rows.to = {5, 4};
    return std::make_shared<SampleRows>(rows);
  }
  std::shared_ptr<const SampleColumn> make_column(SampleField, JobId) override {
    ++made;
    return std::make_shared<SampleColumn>(SampleColumn{.values = {0.5, kMissing}, .ages = {7}});
  }
};

TEST(ColumnSamples, MakeAColumnOnceAndOnlyOnRequest) {
  Counted source;
  source.rows(SampleTable::ranks, {1});
  EXPECT_EQ(source.made, 0);
  source.column(SampleField::power, {1});
  source.column(SampleField::power, {1});
  EXPECT_EQ(source.made, 1);
  source.column(SampleField::power, {2});
  EXPECT_EQ(source.made, 2) << "of another job";
  source.clear_tables();
  source.column(SampleField::power, {1});
  EXPECT_EQ(source.made, 3);
}

TEST(ColumnSamples, PutRowsTogether) {
  Counted source;
  const std::span<const RankSample> ranks = source.ranks({3});
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].job, JobId{3});
  EXPECT_EQ(ranks[1].rank, RankId{9});
  EXPECT_EQ(ranks[1].step, 2u);
  EXPECT_EQ(ranks[0].noise_scale.value, 0.5);
  EXPECT_EQ(ranks[0].noise_scale.age, 7);
  EXPECT_FALSE(ranks[1].noise_scale.is_known());
  EXPECT_EQ(ranks.data(), source.ranks({3}).data());
  EXPECT_EQ(source.links({3})[0].to, GpuId{5});
  EXPECT_EQ(source.devices({3})[1].gpu, GpuId{9});
}

TEST(ColumnSamples, AreMadeAnewAfterAClearAlsoIfATableIsReadAgainOnlyLater) {
  Counted source;
  const auto rows = source.rows(SampleTable::ranks, {3});
  source.ranks({3});
  EXPECT_EQ(source.made, 6);
  for (int clear = 0; clear < 2; ++clear) {  // the second one finds the table without a read
    source.clear_tables();
    source.devices({3});
  }
  EXPECT_EQ(source.made, 6 + 2 * 4);
  EXPECT_NE(source.rows(SampleTable::ranks, {3}), rows);
  EXPECT_EQ(source.ranks({3}).size(), 2u);
  EXPECT_EQ(source.made, 6 + 2 * 4 + 6);
  EXPECT_EQ(source.rows(SampleTable::ranks, {3})->ids, rows->ids) << "a reader may still have them";
}

TEST(SampleField, EachHasANameAndATable) {
  for (const SampleTable table : {SampleTable::ranks, SampleTable::devices, SampleTable::links}) {
    for (const SampleField field : fields_of(table)) {
      EXPECT_EQ(table_of(field), table);
      EXPECT_EQ(field_of_name(name_of(field)), field);
    }
  }
  EXPECT_EQ(field_of_name("micro_batch_tim"), std::nullopt);
}

}  // namespace
}  // namespace orrery
