plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.android)
}

android {
    namespace = "org.handspan.app"
    compileSdk = 35

    defaultConfig {
        applicationId = "org.handspan.app"
        minSdk = 26
        targetSdk = 35
        versionCode = 1
        versionName = "0.1.0"
        testInstrumentationRunner = "android.test.InstrumentationTestRunner" // the framework's own: no AndroidX
    }

    useLibrary("android.test.runner")
    useLibrary("android.test.base")

    // `full` has text messages, too; stores refuse apps that ask for them.
    flavorDimensions += "where"
    productFlavors {
        create("store") { dimension = "where" }
        create("full") {
            dimension = "where"
            applicationIdSuffix = ".full"
        }
    }

    buildTypes {
        release {
            isMinifyEnabled = true
            isShrinkResources = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"), "proguard-rules.pro")
        }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
    testOptions.unitTests.isIncludeAndroidResources = true
}

dependencies {
    implementation(project(":bridge"))
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
