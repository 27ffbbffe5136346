import com.android.build.gradle.LibraryExtension

plugins {
    alias(libs.plugins.android.application) apply false
    alias(libs.plugins.android.library) apply false
    alias(libs.plugins.kotlin.android) apply false
}

// What all libraries have in common, and how each is published: `gradle publishToMavenLocal`, or `publish` to a repository of
// yours (handspan.repository in gradle.properties or with -P).
subprojects {
    group = "org.handspan"
    version = "0.1.0"

    plugins.withId("com.android.library") {
        apply(plugin = "maven-publish")
        configure<LibraryExtension> {
            compileSdk = 35
            defaultConfig { minSdk = 26 }
            compileOptions {
                sourceCompatibility = JavaVersion.VERSION_17
                targetCompatibility = JavaVersion.VERSION_17
            }
            testOptions.unitTests {
                isIncludeAndroidResources = true
                all { it.systemProperty("protocol.folder", rootDir.resolve("../../protocol").path) }
            }
            publishing { singleVariant("release") { withSourcesJar() } }
        }
        afterEvaluate { publish("release") }
    }
    tasks.withType<org.jetbrains.kotlin.gradle.tasks.KotlinCompile>().configureEach {
        compilerOptions.jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_17
    }
}

fun Project.publish(component: String) = configure<PublishingExtension> {
    publications.register<MavenPublication>("handspan") {
        from(components[component])
        artifactId = "handspan-android-${project.name}"
    }
    findProperty("handspan.repository")?.let { address -> repositories.maven(address) }
}
