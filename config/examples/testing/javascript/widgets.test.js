import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { CoreV1Api, CustomObjectsApi } from "@kubernetes/client-node";
import { start } from "./server.js";

let server, core, objects, where;

before(async () => {
  server = await start();
  core = server.config.makeApiClient(CoreV1Api);
  objects = server.config.makeApiClient(CustomObjectsApi);
});

after(() => server?.stop());

// Each test has a namespace of its own.
beforeEach(async () => {
  const made = await core.createNamespace({ body: { metadata: { generateName: "test-" } } });
  where = { group: "example.com", version: "v1", namespace: made.metadata.name, plural: "widgets" };
});

const widget = (size) => ({ apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "one" }, spec: { size } });

test("a small widget is stored", async () => {
  await objects.createNamespacedCustomObject({ ...where, body: widget(3) });
  const list = await objects.listNamespacedCustomObject(where);
  assert.deepEqual(list.items.map((item) => item.spec.size), [3]);
});

test("a large widget is refused", async () => {
  await assert.rejects(objects.createNamespacedCustomObject({ ...where, body: widget(12) }), (error) => {
    assert.equal(error.code, 422);
    assert.match(String(error.body), /too big/);
    return true;
  });
  const list = await objects.listNamespacedCustomObject(where);
  assert.deepEqual(list.items, []);
});
