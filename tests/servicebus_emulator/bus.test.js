// Microsoft's JavaScript SDK, unmodified, against the bus. Started by test_sdk_javascript.py, which names the bus in the environment.
"use strict";

// Node 18, Debian 12's, has no global `crypto`, which the administration client takes for granted
globalThis.crypto ??= require("node:crypto").webcrypto;
const assert = require("node:assert/strict");
const { after, test } = require("node:test");
const { createSasTokenProvider } = require("@azure/core-amqp");
const { ServiceBusClient, ServiceBusAdministrationClient, parseServiceBusConnectionString } = require("@azure/service-bus");
const rhea = require("rhea"); // the AMQP client below the SDK, here used by itself
const WebSocket = require("ws");

const connection = process.env.BUS_CONNECTION;
const client = new ServiceBusClient(connection);
after(() => client.close());

const receiveAll = async (receiver, count) => {
  const messages = [];
  while (messages.length < count) {
    const batch = await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: 30000 });
    assert.ok(batch.length, `${messages.length} of ${count} messages came`);
    messages.push(...batch);
  }
  return messages;
};

test("properties and bodies arrive as sent; complete, abandon, dead-letter", async () => {
  const sender = client.createSender("js-life");
  await sender.sendMessages({
    body: { text: "ä", list: [1, 2.5, null] },
    applicationProperties: { step: "OCR", n: 7, yes: true },
    messageId: "m1", correlationId: "c", subject: "s", contentType: "application/json", replyTo: "r",
  });
  const receiver = client.createReceiver("js-life", { maxAutoLockRenewalDurationInMs: 0 });
  let [message] = await receiveAll(receiver, 1);
  assert.deepEqual(message.body, { text: "ä", list: [1, 2.5, null] });
  assert.deepEqual(message.applicationProperties, { step: "OCR", n: 7, yes: true });
  assert.deepEqual(
    [message.messageId, message.correlationId, message.subject, message.contentType, message.replyTo],
    ["m1", "c", "s", "application/json", "r"],
  );
  assert.equal(message.deliveryCount, 0);
  const before = message.lockedUntilUtc;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok((await receiver.renewMessageLock(message)) > before);
  await receiver.abandonMessage(message, { note: "again" });
  [message] = await receiveAll(receiver, 1);
  assert.equal(message.deliveryCount, 1);
  assert.equal(message.applicationProperties.note, "again");
  await receiver.deadLetterMessage(message, { deadLetterReason: "bad", deadLetterErrorDescription: "json", extra: 1 });
  const dead = client.createReceiver("js-life", { subQueueType: "deadLetter", receiveMode: "receiveAndDelete" });
  [message] = await receiveAll(dead, 1);
  assert.deepEqual(
    [message.deadLetterReason, message.deadLetterErrorDescription, message.applicationProperties.extra],
    ["bad", "json", 1],
  );
  assert.deepEqual(await dead.receiveMessages(1, { maxWaitTimeInMs: 200 }), []);
  await Promise.all([sender.close(), receiver.close(), dead.close()]);
});

test("batches, peek, defer, schedule and cancel", async () => {
  const sender = client.createSender("js-batch");
  const batch = await sender.createMessageBatch();
  for (let i = 0; i < 50; i++) assert.ok(batch.tryAddMessage({ body: `${i}` }));
  await sender.sendMessages(batch);
  const receiver = client.createReceiver("js-batch", { maxAutoLockRenewalDurationInMs: 0 });
  const [bare] = await receiver.peekMessages(1, { omitMessageBody: true });
  assert.deepEqual([bare.body, bare.sequenceNumber.toNumber()], [undefined, 1]);
  assert.equal((await receiver.peekMessages(100)).length, 49);
  const messages = await receiveAll(receiver, 50);
  assert.deepEqual(messages.map((m) => m.body), [...Array(50).keys()].map(String));
  assert.ok(messages.every((m) => m.messageId));
  await receiver.deferMessage(messages[0]);
  await Promise.all(messages.slice(1).map((m) => receiver.completeMessage(m)));
  const [deferred] = await receiver.receiveDeferredMessages(messages[0].sequenceNumber);
  assert.deepEqual([deferred.body, deferred.deliveryCount], ["0", 1]);
  await receiver.completeMessage(deferred);
  const [later] = await sender.scheduleMessages({ body: "never" }, new Date(Date.now() + 3600e3));
  await sender.scheduleMessages([{ body: "soon" }], new Date(Date.now() + 300));
  await sender.cancelScheduledMessages(later);
  const [soon] = await receiveAll(receiver, 1);
  assert.equal(soon.body, "soon");
  await receiver.completeMessage(soon);
  await assert.rejects(sender.sendMessages({ body: "x".repeat(300000) }), { code: "MessageSizeExceeded" });
  await Promise.all([sender.close(), receiver.close()]);
});

test("time to live, duplicate detection, forwarding and its dead letters", async () => {
  const send = async (queue, ...messages) => {
    const sender = client.createSender(queue);
    await sender.sendMessages(messages);
    await sender.close();
  };
  const take = async (queue, options = {}, count = 1) => {
    const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete", ...options });
    const messages = await receiveAll(receiver, count);
    assert.deepEqual(await receiver.peekMessages(1), []);
    await receiver.close();
    return messages;
  };
  await send("js-expiring", { body: "x" }, { body: "y", timeToLive: 50 }, { body: "z", timeToLive: 3600e3 });
  const expired = await take("js-expiring", { subQueueType: "deadLetter" }, 3);
  assert.deepEqual(
    expired.map((m) => [m.body, m.deadLetterReason, m.timeToLive, m.expiresAtUtc - m.enqueuedTimeUtc]).sort(),
    [["x", "TTLExpiredException", 200, 200], ["y", "TTLExpiredException", 50, 50], ["z", "TTLExpiredException", 200, 200]],
  );
  await send("js-deduplicating", ...["a", "b", "a"].map((messageId) => ({ body: messageId, messageId })));
  assert.deepEqual((await take("js-deduplicating", {}, 2)).map((m) => m.body), ["a", "b"]);
  await send("js-first", { body: "on its way" });
  const last = client.createReceiver("js-last");
  const [forwarded] = await receiveAll(last, 1);
  assert.equal(forwarded.body, "on its way");
  await last.deadLetterMessage(forwarded, { deadLetterReason: "why" });
  await last.close();
  const [deadLetter] = await take("js-dead-letters");
  assert.deepEqual([deadLetter.body, deadLetter.deadLetterReason, deadLetter.deadLetterSource], ["on its way", "why", "js-last"]);
  await assert.rejects(take("js-first"), /forwards its messages/);
  await send("js-refused", { body: "no session id" });
  const [refused] = await take("js-refused", { subQueueType: "deadLetter" });
  assert.match(refused.deadLetterErrorDescription, /SessionId was not set/);
});

test("a full entity refuses until it is read", async () => {
  const withoutRetries = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0 } });
  const sender = withoutRetries.createSender("js-life");
  const body = Buffer.alloc(240000);
  for (let i = 0; i < 4; i++) await sender.sendMessages({ body });
  await assert.rejects(sender.sendMessages({ body }), { code: "QuotaExceeded" });
  const receiver = client.createReceiver("js-life", { receiveMode: "receiveAndDelete" });
  await receiveAll(receiver, 4);
  await sender.sendMessages({ body });
  await receiveAll(receiver, 1);
  await Promise.all([withoutRetries.close(), receiver.close()]);
});

test("subscribe pumps messages", async () => {
  const sender = client.createSender("js-pump");
  const receiver = client.createReceiver("js-pump");
  const bodies = [];
  const done = new Promise((resolve, reject) => {
    receiver.subscribe(
      {
        processMessage: async (message) => { bodies.push(message.body); if (bodies.length === 20) resolve(); },
        processError: async (args) => reject(args.error),
      },
      { maxConcurrentCalls: 5 },
    );
  });
  await sender.sendMessages([...Array(20).keys()].map((i) => ({ body: i })));
  await done;
  assert.deepEqual(bodies.sort((a, b) => a - b), [...Array(20).keys()]);
  await Promise.all([sender.close(), receiver.close()]);
});

test("sessions: by id, next available, state, locked by another, timeout", async () => {
  const sender = client.createSender("js-sessions");
  await sender.sendMessages([{ body: "a", sessionId: "s1" }, { body: "b", sessionId: "s2" }]);
  const first = await client.acceptSession("js-sessions", "s1");
  assert.equal(first.sessionId, "s1");
  await assert.rejects(client.acceptSession("js-sessions", "s1"), { code: "SessionCannotBeLocked" });
  const next = await client.acceptNextSession("js-sessions");
  assert.equal(next.sessionId, "s2");
  await first.setSessionState({ step: 1 });
  assert.deepEqual(await first.getSessionState(), { step: 1 });
  assert.ok((await first.renewSessionLock()) > new Date());
  for (const receiver of [first, next]) {
    const [message] = await receiveAll(receiver, 1);
    await receiver.completeMessage(message);
    await receiver.close();
  }
  await assert.rejects(client.createReceiver("js-sessions").receiveMessages(1, { maxWaitTimeInMs: 100 }), /require/i);
  await sender.close();
});

test("rules over AMQP", async () => {
  const rules = client.createRuleManager("js-topic", "js-sub");
  const list = async () => {
    const all = [];
    for await (const rule of rules.listRules()) all.push(rule);
    return all;
  };
  assert.deepEqual((await list()).map((r) => r.name), ["$Default"]);
  await rules.deleteRule("$Default");
  await rules.createRule("sql", { sqlExpression: "n > 5" }, { sqlExpression: "SET big = TRUE" });
  const at = new Date("2000-01-01T00:00:00Z");
  await rules.createRule("equal", { subject: "s", applicationProperties: { n: 1 } });
  await rules.createRule("dated", { applicationProperties: { at } });
  const byName = Object.fromEntries((await list()).map((r) => [r.name, r]));
  assert.equal(byName.sql.filter.sqlExpression, "n > 5");
  assert.equal(byName.sql.action.sqlExpression, "SET big = TRUE");
  assert.deepEqual([byName.equal.filter.subject, byName.equal.filter.applicationProperties], ["s", { n: 1 }]);
  assert.deepEqual(byName.dated.filter.applicationProperties, { at });
  await assert.rejects(rules.createRule("bad", { sqlExpression: "n >" }), /value expected/);
  const sender = client.createSender("js-topic");
  await sender.sendMessages([2, 6, 1].map((n) => ({ body: n, subject: "s", applicationProperties: { n } })));
  const receiver = client.createReceiver("js-topic", "js-sub", { receiveMode: "receiveAndDelete" });
  const messages = await receiveAll(receiver, 2);
  assert.deepEqual(messages.map((m) => [m.body, m.applicationProperties.big]), [[6, true], [1, undefined]]);
  await Promise.all([sender.close(), receiver.close()]);
});

test("an unknown entity has the right error code", async () => {
  const sender = client.createSender("nowhere");
  await assert.rejects(sender.sendMessages({ body: 1 }), { code: "MessagingEntityNotFound" });
  await sender.close();
});

test("a receiver of a queue that is deleted", async () => {
  const admin = new ServiceBusAdministrationClient(process.env.BUS_ADMIN_CONNECTION);
  await admin.createQueue("js-deleted");
  const receiver = client.createReceiver("js-deleted");
  const first = new Promise((resolve) => receiver.subscribe({ processMessage: async () => {}, processError: async ({ error }) => resolve(error) }));
  const sender = client.createSender("js-deleted");
  await sender.sendMessages({ body: "the receiver is attached when it is gone" });
  while ((await admin.getQueueRuntimeProperties("js-deleted")).totalMessageCount) await new Promise((r) => setTimeout(r, 20));
  await admin.deleteQueue("js-deleted");
  const error = await first;
  assert.deepEqual([error.code, error.retryable], ["MessagingEntityNotFound", false]);
  await assert.rejects(sender.sendMessages({ body: "too late" }), { code: "MessagingEntityNotFound" });
  await Promise.all([receiver.close(), sender.close()]);
});

test("administration", async () => {
  const admin = new ServiceBusAdministrationClient(process.env.BUS_ADMIN_CONNECTION);
  const made = await admin.createQueue("js-made", { maxDeliveryCount: 4, userMetadata: "x" });
  assert.deepEqual([made.name, made.maxDeliveryCount, made.userMetadata], ["js-made", 4, "x"]);
  assert.ok(await admin.queueExists("js-made"));
  assert.ok(!(await admin.queueExists("js-missing")));
  await assert.rejects(admin.createQueue("js-made"), { code: "MessageEntityAlreadyExistsError" });
  await admin.updateQueue({ ...made, maxDeliveryCount: 6, forwardTo: "js-life" });
  assert.match((await admin.getQueue("js-made")).forwardTo, /^sb:\/\/127.0.0.1:\d+\/js-life$/);
  assert.equal((await admin.getQueue("js-made")).maxDeliveryCount, 6);
  assert.equal((await admin.getQueueRuntimeProperties("js-made")).activeMessageCount, 0);
  const at = new Date("2000-01-01T00:00:00.250Z");
  await admin.createTopic("js-made-topic");
  await admin.createSubscription("js-made-topic", "s", { defaultRuleOptions: { name: "mine", filter: { sqlExpression: "a=1" } } });
  await admin.createRule("js-made-topic", "s", "more", { applicationProperties: { t: "x", n: 5, d: 0.5, b: true, at } });
  const rules = [];
  for await (const rule of admin.listRules("js-made-topic", "s")) rules.push(rule);
  assert.deepEqual(rules.map((r) => r.name), ["mine", "more"]);
  assert.deepEqual(rules[1].filter.applicationProperties, { t: "x", n: 5, d: 0.5, b: true, at });
  await assert.rejects(admin.createRule("js-made-topic", "s", "mine", { sqlExpression: "1=1" }), /^RestError: The messaging entity '.*mine' already exists/);
  assert.ok(!(await admin.subscriptionExists("js-made-topic", "missing")));
  await assert.rejects(admin.getRule("js-made-topic", "s", "missing"), { code: "MessageEntityNotFoundError", statusCode: 404 });
  await assert.rejects(admin.getQueue("missing"), { code: "MessageEntityNotFoundError", statusCode: 200 });
  await admin.deleteSubscription("js-made-topic", "s");
  await admin.deleteTopic("js-made-topic");
  await admin.deleteQueue("js-made");
  assert.equal((await admin.getNamespaceProperties()).messagingSku, "Standard");
});

test("messages beyond the session's window of 2048 transfers stay in the queue", async () => {
  const sender = client.createSender("js-window");
  const send = async (count) => {
    for (let left = count; left > 0; left -= 500) {
      await sender.sendMessages([...Array(Math.min(left, 500)).keys()].map((i) => ({ body: i })));
    }
  };
  const receiver = client.createReceiver("js-window", { maxAutoLockRenewalDurationInMs: 0 });
  await send(2400);
  const first = await receiveAll(receiver, 2000); // the SDK waits for a second after the first one
  const second = [];
  // drains the credit of those that did not come
  while (second.length < 48) second.push(...(await receiver.receiveMessages(400 - second.length, { maxWaitTimeInMs: 5000 })));
  assert.equal(second.length, 48);
  const other = client.createReceiver("js-window", { maxAutoLockRenewalDurationInMs: 0 });
  const third = await receiveAll(other, 200);
  await Promise.all([...first, ...second].map((message) => receiver.completeMessage(message)));
  const fourth = await receiveAll(receiver, 152);
  await Promise.all([...third.map((m) => other.completeMessage(m)), ...fourth.map((m) => receiver.completeMessage(m))]);
  assert.deepEqual(await receiver.peekMessages(1), []);

  // rhea by itself: much credit, nothing settled until the window is full
  await send(2400);
  const [, host, port] = /sb:\/\/([^:]+):(\d+)/.exec(connection);
  const plain = rhea.create_container().connect({
    host, port: Number(port), username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE", reconnect: false,
  });
  const deliveries = [];
  let reached = () => {};
  const until = (count) => new Promise((resolve) => { reached = () => deliveries.length === count && resolve(); reached(); });
  const link = plain.open_receiver({ source: "js-window", credit_window: 0, autoaccept: false });
  link.on("message", ({ delivery }) => { deliveries.push(delivery); reached(); });
  link.add_credit(2400);
  await until(2048);
  const rest = await receiveAll(other, 352);
  await Promise.all(rest.map((message) => other.completeMessage(message)));
  for (const delivery of deliveries) delivery.accept();
  await send(10);
  await until(2058); // the credit that is left is still good
  deliveries.slice(2048).forEach((delivery) => delivery.accept());
  plain.close();
  await new Promise((resolve) => plain.once("connection_close", resolve));
  assert.deepEqual(await receiver.peekMessages(1), []);
  await Promise.all([sender.close(), receiver.close(), other.close()]);
});

test("an AMQP client without knowledge of Service Bus", async () => {
  const [, host, port] = /sb:\/\/([^:]+):(\d+)/.exec(connection);
  const connect = (password) => rhea.create_container().connect({
    host, port: Number(port), username: "RootManageSharedAccessKey", password, reconnect: false,
  });
  const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve));
  const refused = connect("wrong");
  await once(refused, "connection_error");
  const plain = connect("SAS_KEY_VALUE");
  const sender = plain.open_sender("js-life");
  await once(sender, "sendable");
  for (const number of [1, 2, 3]) sender.send({ body: { number }, application_properties: { number } });
  await once(sender, "accepted");
  const receiver = plain.open_receiver({ source: "js-life", credit_window: 0, autoaccept: false });
  const take = async () => { receiver.add_credit(1); return once(receiver, "message"); };
  const first = await take();
  assert.deepEqual([first.message.body, first.message.delivery_count], [{ number: 1 }, 0]);
  first.delivery.modified({ delivery_failed: true });
  const again = await take();
  assert.deepEqual([again.message.body, again.message.delivery_count], [{ number: 1 }, 1]);
  again.delivery.accept();
  (await take()).delivery.reject({ condition: "com.microsoft:dead-letter", description: "unwanted" });
  (await take()).delivery.release();
  const last = await take();
  assert.deepEqual([last.message.body, last.message.delivery_count], [{ number: 3 }, 0]);
  last.delivery.accept();
  const nowhere = plain.open_receiver("nowhere");
  await once(nowhere, "receiver_error");
  assert.equal(nowhere.error.condition, "amqp:not-found");
  plain.close();
  await once(plain, "connection_close");
  const dead = client.createReceiver("js-life", { subQueueType: "deadLetter", receiveMode: "receiveAndDelete" });
  const [deadLetter] = await receiveAll(dead, 1);
  assert.deepEqual([deadLetter.body, deadLetter.deadLetterErrorDescription], [{ number: 2 }, "unwanted"]);
  await dead.close();
});

test("a connection string with a shared access signature, without SASL", async () => {
  const { endpoint, ...key } = parseServiceBusConnectionString(connection);
  const { token } = await createSasTokenProvider(key).getToken(`${endpoint}/js-ws`);
  const signed = new ServiceBusClient(`Endpoint=${endpoint};SharedAccessSignature=${token};UseDevelopmentEmulator=true`);
  const sender = signed.createSender("js-ws");
  await sender.sendMessages({ body: "signed" });
  const receiver = signed.createReceiver("js-ws", { receiveMode: "receiveAndDelete" });
  assert.equal((await receiveAll(receiver, 1))[0].body, "signed");
  await signed.close();
});

test("AMQP over WebSockets with TLS", async () => {
  const over = new ServiceBusClient(process.env.BUS_WS_CONNECTION, { webSocketOptions: { webSocket: WebSocket } });
  const sender = over.createSender("js-ws");
  await sender.sendMessages({ body: "x".repeat(200000) });
  const receiver = over.createReceiver("js-ws", { receiveMode: "receiveAndDelete" });
  const [message] = await receiveAll(receiver, 1);
  assert.equal(message.body.length, 200000);
  await over.close();
});
