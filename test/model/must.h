/* must: what the models tell, for spin. Once, on the standard output, outside of the
 * states: that something interesting was reached, and what was violated.
 */
c_decl {
	static void tell(const char *what)
	{
		static const char *told[64];
		int i = 0;

		while (told[i] && told[i] != what)
			i++;
		if (!told[i])
			puts(told[i] = what);
	}
}
#define SEEN(text) c_code { tell("seen: " text); }
#define MUST(what, x)					\
	if						\
	:: x						\
	:: else ->					\
		c_code { tell("violated: " what); };	\
		assert(false)				\
	fi
