#include "traces/published/published_table.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

const std::string kFile = "t.csv";
const std::string kHeader =
    "id,model,layers,hidden,heads,kv_heads,ffn,gated_mlp,vocab,seq_len,gpu,n_gpus,tp,pp,dp,"
    "precision,gbs,framework,iter_time_s\n";

std::vector<TableRow> rows(const std::string& text) {
  PublishedTable table(kFile, text);
  std::vector<TableRow> all;
  for (TableRow row; table.next(row);) all.push_back(row);
  return all;
}

std::string problem(const std::string& text) {
  try {
    rows(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return std::to_string(error.source_place()->line) + ":" +
           std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "";
}

TEST(PublishedTable, ARowWithItsNumbersAndTexts) {
  const auto all = rows(kHeader + "\n\"a,1\",m,80,8192,64,MLA,28672,1,1000,4096.0,H100,64,4,4,4,"
                                  " bf16 ,128,NeMo,oops\n");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].id, "a,1");
  EXPECT_EQ(all[0].line, 3);
  EXPECT_EQ(all[0].layers, 80u);
  EXPECT_EQ(all[0].seq_len, 4096u);
  EXPECT_EQ(all[0].kv_heads, "MLA");
  EXPECT_EQ(all[0].precision, "bf16");
  EXPECT_FALSE(all[0].cp.has_value()) << "a column that the table lacks is an empty cell";
  EXPECT_TRUE(all[0].problems.empty()) << "what came out of a run is not read";
}

TEST(PublishedTable, OddCellsAreProblemsOfTheirRow) {
  const auto all = rows(kHeader +
                        "a,m,x,8192,64,8,28672,2,1000,1e99,H100,-1,1.5,4,4,bf16,nan,NeMo,\n"
                        "b,m,80,8192,64,8,28672,1,1000,4096,H100,64,4,4,4,bf16,128,NeMo,\n");
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(all[0].problems.size(), 6u);
  EXPECT_EQ(all[0].problems[0], "layers is 'x', no whole number from 1 to 10000");
  EXPECT_TRUE(all[1].problems.empty());
}

TEST(PublishedTable, ColumnsOfTheModelAreRead) {
  const auto all = rows(
      "model,head_size,window,window_layers,latent,dense_layers,dense_ffn,shared_experts,capacity,"
      "balance,graphs,context_kind,window_every,expert_every,padded,dispatch\n"
      "m,128,1024,0,0/512/128/64/128,0,18432,0,1.25,forced,full,ulysses,6,2,1,einsum\n"
      "m,0,0,-1,,x,0,1001,0.01,,,,-1,0,2,\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].unread.empty());
  EXPECT_TRUE(all[0].problems.empty());
  EXPECT_EQ(all[0].head_size, 128u);
  EXPECT_EQ(all[0].window, 1024u);
  EXPECT_EQ(all[0].window_layers, 0u);
  EXPECT_EQ(all[0].latent, "0/512/128/64/128");
  EXPECT_EQ(all[0].dense_layers, 0u);
  EXPECT_EQ(all[0].dense_ffn, 18432u);
  EXPECT_EQ(all[0].shared_experts, 0u);
  EXPECT_EQ(all[0].capacity, 1.25);
  EXPECT_EQ(all[0].balance, "forced");
  EXPECT_EQ(all[0].graphs, "full");
  EXPECT_EQ(all[0].context_kind, "ulysses");
  EXPECT_EQ(all[0].window_every, 6u);
  EXPECT_EQ(all[0].expert_every, 2u);
  EXPECT_EQ(all[0].padded, 1u);
  EXPECT_EQ(all[0].dispatch, "einsum");
  EXPECT_EQ(all[1].problems.size(), 10u);
}

TEST(PublishedTable, TheFormItselfIsRefusedWithItsPlace) {
  EXPECT_EQ(problem(""), "1:1: is empty: a table of runs begins with a header");
  const std::string lacking = problem("id,vocab\n");
  EXPECT_NE(lacking.find("1:1: expected one run a row under a header with certain columns, got "
                         "none named model; those may be left out: id, n_params_b, layers, "),
            std::string::npos)
      << lacking;
  EXPECT_EQ(problem("id," + kHeader), "1:4: column 'id' is in the header twice");
  EXPECT_EQ(problem(kHeader + "a,b\n"), "2:1: this row has 2 fields, the header has 19");
  EXPECT_EQ(problem(kHeader + "a,\"b\n"), "2:3: this quote is never closed");
}

}  // namespace
}  // namespace orrery
