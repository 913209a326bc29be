/* int128.h - exact wide integers under -Wpedantic. */
#ifndef EBB_BASE_INT128_H
#define EBB_BASE_INT128_H

__extension__ typedef __int128 ebb_i128;
__extension__ typedef unsigned __int128 ebb_u128;

#endif
