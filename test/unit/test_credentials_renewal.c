/* credentials: renewal, reloading, and many threads.
 */
#include "credentials_fixture.h"

/* --- Renewal -------------------------------------------------------------- */

static void test_renewal(void)
{
	unsigned generation;

	start_server(JSON_KEYS);
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/");
	CHECK_EQ(get(), OUTCOME_OK);
	generation = keys.generation;
	later_ms += HOUR_MS - CREDENTIALS_EARLY_MS - 30000;
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 1);

	/* Due; the endpoint fails: the old ones do, and nobody asks again for
	 * half a minute. */
	later_ms += 60000;
	status_given = 500;
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 2);
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 2);
	CHECK_EQ(keys.generation, generation);
	later_ms += 31000;
	status_given = 200;
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 3);
	CHECK_EQ(keys.generation, generation); /* the same keys, later expiry */
	CHECK(keys.expires_boot_ms > clock_boot_ms() + HOUR_MS - 30000);

	/* Expired, also by a machine that slept. */
	later_ms += 2 * HOUR_MS;
	status_given = 403;
	CHECK_EQ(get(), OUTCOME_DENIED);
	CHECK_EQ(get(), OUTCOME_DENIED);
	CHECK_EQ(server->whole, 4); /* not asked again at once */
	later_ms += 1001;
	status_given = 200;
	body_given = "{\"AccessKeyId\":\"AK2\",\"SecretAccessKey\":\"hush\","
		     "\"Expiration\":\"2013-05-24T00:02:00Z\"}";
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(keys.access_key, "AK2");
	CHECK(keys.generation != generation);

	/* Two minutes are less than the five: asked again, but not always. */
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 5);

	/* Renewal is tried until the very end. */
	later_ms += 100000;
	status_given = 500;
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 6);
	later_ms += 21000;
	status_given = 200;
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(server->whole, 7);
	finish_server();
}

/* A renewal in good time takes at most half of the caller's. */
static void test_renewal_hangs(void)
{
	struct limits limits;
	int64_t start_ms;

	start_server(JSON_KEYS);
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/");
	CHECK_EQ(get(), OUTCOME_OK);
	later_ms += HOUR_MS - CREDENTIALS_EARLY_MS + 1000;
	server->stage_of = hang;
	limits = within_ms(1000);
	start_ms = clock_boot_ms();
	CHECK_EQ(credentials_get(credentials, &limits, &keys, &reason),
		 OUTCOME_OK);
	CHECK(clock_boot_ms() - start_ms >= 490);
	CHECK(clock_boot_ms() - start_ms < 1000);
	finish_server();
}

static void test_reload(void)
{
	static const char one[] = "[default]\naws_access_key_id=AK1\n"
				  "aws_secret_access_key=hush1\n";
	static const char two[] = "[default]\naws_access_key_id=AK1\n"
				  "aws_secret_access_key=hush2\n";
	struct limits limits = within_ms(5000);
	unsigned generation;

	start();
	write_file(".aws/credentials", one);
	CHECK_EQ(get(), OUTCOME_OK);
	generation = keys.generation;
	CHECK_EQ(checked(credentials_reload(credentials, &limits, generation,
					    &reason)),
		 OUTCOME_DENIED);
	check_reason("AWS's files");
	write_file(".aws/credentials", two);
	CHECK_EQ(get(), OUTCOME_OK); /* static keys are not read again */
	CHECK_STR(keys.secret_key, "hush1");
	/* Not asked more often than once a second. */
	CHECK_EQ(credentials_reload(credentials, &limits, generation, &reason),
		 OUTCOME_DENIED);
	later_ms += 1001;
	limits = within_ms(5000);
	CHECK_EQ(credentials_reload(credentials, &limits, generation, &reason),
		 OUTCOME_OK);
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(keys.secret_key, "hush2");
	CHECK(keys.generation != generation);
	/* Somebody who still has the old ones. */
	CHECK_EQ(credentials_reload(credentials, &limits, generation, &reason),
		 OUTCOME_OK);

	/* A file that breaks leaves the keys that there are. */
	later_ms += 1001;
	limits = within_ms(5000);
	write_file(".aws/credentials", "hush");
	CHECK_EQ(checked(credentials_reload(credentials, &limits,
					    keys.generation, &reason)),
		 OUTCOME_INVALID);
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(keys.secret_key, "hush2");
	finish();
}

/* --- Threads -------------------------------------------------------------- */

#define CROWD 8

static void *crowd_member(void *arg)
{
	struct limits limits = within_ms(20000);
	struct keys *own = malloc(sizeof(*own));
	struct reason why;

	(void)arg;
	CHECK(own != NULL);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(credentials_get(credentials, &limits, own, &why),
			 OUTCOME_OK);
		CHECK_STR(own->secret_key, "hush/json+");
	}
	free(own);
	return NULL;
}

static void test_crowd(void)
{
	pthread_t threads[CROWD];

	start_server(JSON_KEYS);
	delay_ms = 100;
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/");
	for (int i = 0; i < CROWD; i++)
		pthread_create(&threads[i], NULL, crowd_member, NULL);
	for (int i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(server->whole, 1);
	finish_server();
}

static void *stop_soon(void *arg)
{
	server_sleep_ms(100);
	stop_request(arg);
	return NULL;
}

static void *get_slowly(void *arg)
{
	struct limits limits = within_ms(3000);
	struct keys *own = malloc(sizeof(*own));
	struct reason why;

	(void)arg;
	CHECK(own != NULL);
	CHECK_EQ(credentials_get(credentials, &limits, own, &why),
		 OUTCOME_TIMEOUT);
	free(own);
	return NULL;
}

/* Who asks and who waits for the one who asks can both be interrupted. */
static void test_interrupted(void)
{
	pthread_t stopper, other;
	struct limits limits;
	struct stop stop;
	int64_t start_ms;

	start_server(JSON_KEYS);
	server->stage_of = hang;
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/");
	for (int waiting = 0; waiting < 2; waiting++) {
		stop_init(&stop);
		if (waiting) {
			pthread_create(&other, NULL, get_slowly, NULL);
			server_sleep_ms(200);
		}
		limits = within_ms(10000);
		limits.stop = &stop;
		start_ms = clock_boot_ms();
		pthread_create(&stopper, NULL, stop_soon, &stop);
		CHECK_EQ(checked(credentials_get(credentials, &limits, &keys,
						 &reason)),
			 OUTCOME_INTERRUPTED);
		CHECK(clock_boot_ms() - start_ms < 2500);
		pthread_join(stopper, NULL);
		if (waiting)
			pthread_join(other, NULL);
		stop_release(&stop);
	}
	finish_server();
}

static atomic_bool may_answer;

static bool give_when_told(struct server *s, int fd,
			   const struct server_request *request)
{
	while (!may_answer)
		server_sleep_ms(5);
	return give(s, fd, request);
}

static void *reload_too(void *arg)
{
	const unsigned *generation = arg;
	struct reason why = {""};
	struct limits limits;

	while (server->whole < 2)
		server_sleep_ms(5);
	limits = within_ms(100);
	CHECK_EQ(credentials_reload(credentials, &limits, *generation, &why),
		 OUTCOME_TIMEOUT);
	CHECK(strstr(why.text, "limits ended the wait") != NULL);
	may_answer = true;
	limits = within_ms(20000);
	CHECK_EQ(credentials_reload(credentials, &limits, *generation, &why),
		 OUTCOME_OK);
	return NULL;
}

/* Who wants to reload while another one does, waits for that one, within limits
 * of his own. */
static void test_reload_together(void)
{
	struct limits limits;
	unsigned generation;
	pthread_t other;

	start_server(JSON_KEYS);
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/");
	CHECK_EQ(get(), OUTCOME_OK);
	generation = keys.generation;
	body_given = "{\"AccessKeyId\":\"AKnext\",\"SecretAccessKey\":"
		     "\"hush\"}";
	server->answer = give_when_told;
	pthread_create(&other, NULL, reload_too, &generation);
	limits = within_ms(20000);
	CHECK_EQ(credentials_reload(credentials, &limits, generation, &reason),
		 OUTCOME_OK);
	pthread_join(other, NULL);
	CHECK_EQ(server->whole, 2);
	finish_server();
}

int main(void)
{
	machine_start();
	RUN(test_renewal);
	RUN(test_renewal_hangs);
	RUN(test_reload);
	RUN(test_reload_together);
	RUN(test_crowd);
	RUN(test_interrupted);
	machine_stop();
	return 0;
}
