# Makes of a source of kernels, CKPTDB_KERNELS, one that the host's compiler
# takes behind simt.h, CKPTDB_SIMT_SOURCE: the brackets of launches are not C++.
file(READ "${CKPTDB_KERNELS}" text)
string(REPLACE "<<<" " ->* ::ckptdb::testing::Launch(" text "${text}")
string(REPLACE ">>>" ")" text "${text}")
file(WRITE "${CKPTDB_SIMT_SOURCE}" "#line 1 \"${CKPTDB_KERNELS}\"\n${text}")
